//! From prompts to text: chunks and their borders (case C39), ends, stop strings, limits, cancellation,
//! prefixes that are not read twice.

mod tiny;
mod toy;

use metile::Device;
use metile_models::chat_template::ChatTemplate;
use metile_models::checkpoint::Checkpoint;
use metile_models::conversation::Conversation;
use metile_models::decoder::{Error, Model, Options};
use metile_models::generate::{Finish, Generation, Request, generate};
use metile_models::sampling::Settings;
use metile_models::tokenizer::Tokenizer;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use tiny::{Tiny, devices, largest_difference, model};

/// `tiny-llama` with a tokenizer whose tokens are bytes, and a chat template.
struct Spoken {
    tiny: Tiny,
    tokenizer: Tokenizer,
    template: ChatTemplate,
}

const TEMPLATE: &str = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}\n{% endfor %}\
                        {% if add_generation_prompt %}a:{% endif %}";

impl Spoken {
    fn new() -> Spoken {
        let folder = tempfile::tempdir().unwrap();
        for file in ["config.json", "generation_config.json", "model.safetensors"] {
            std::fs::copy(tiny::folder("tiny-llama").join(file), folder.path().join(file)).unwrap();
        }
        let mut json = toy::tokenizer_json();
        json["added_tokens"] = serde_json::json!([]);
        json["model"]["merges"] = serde_json::json!([]);
        let vocabulary = json["model"]["vocab"].as_object_mut().unwrap();
        vocabulary.retain(|_, id| id.as_u64().unwrap() < 256);
        toy::write_json(folder.path(), "tokenizer.json", &json);
        std::fs::write(folder.path().join("chat_template.jinja"), TEMPLATE).unwrap();
        let mut tiny = Tiny::load("tiny-llama");
        tiny.checkpoint = Checkpoint::open(folder.path()).unwrap();
        let tokenizer = Tokenizer::from_checkpoint(&tiny.checkpoint).unwrap();
        let template = ChatTemplate::from_checkpoint(&tiny.checkpoint).unwrap();
        Spoken { tiny, tokenizer, template }
    }

    fn model(&self) -> Model {
        model(&self.tiny, &Device::interpreter(), 16)
    }

    fn request(&self, tokens: usize) -> Request {
        let prompt = self.tiny.ids[..self.tiny.prompt].to_vec();
        Request { prompt, max_tokens: Some(tokens), ignore_end: true, ..Request::default() }
    }

    fn run(&self, model: &mut Model, request: &Request) -> Result<(Generation, String), Error> {
        let mut streamed = String::new();
        let mut take = |text: &str| {
            streamed.push_str(text);
            ControlFlow::Continue(())
        };
        let go = AtomicBool::new(false);
        let made = generate(model, Some(&self.tokenizer), request, &go, &mut take)?;
        Ok((made, streamed))
    }
}

fn ids_only(model: &mut Model, prompt: &[u32], tokens: usize) -> Generation {
    let request = Request {
        prompt: prompt.to_vec(),
        max_tokens: Some(tokens),
        ignore_end: true,
        ..Request::default()
    };
    let mut ignore = |_: &str| ControlFlow::Continue(());
    generate(model, None, &request, &AtomicBool::new(false), &mut ignore).unwrap()
}

#[test]
fn chunk_borders_and_resumed_prompts() {
    for tiny in [Tiny::load("tiny-llama"), Tiny::load("tiny-qwen3")] {
        for device in devices() {
            let mut model = model(&tiny, &device, 16);
            for length in [1, 15, 16, 17, 31, 32, 33] {
                let prompt = &tiny.ids[..length];
                let check = |model: &Model, how: &str| {
                    let got = model.logits().unwrap();
                    let difference = largest_difference(&got, &tiny.logits[length - 1]);
                    assert!(difference <= 2e-4, "{} {length} {how}: {difference}", tiny.name);
                };
                model.keep(0);
                model.poison_free_slots().unwrap();
                let made = ids_only(&mut model, prompt, 0);
                assert_eq!((made.times.prefill_tokens, made.times.reused_tokens), (length, 0));
                check(&model, "at once");
                for left in [0, 1, 15] {
                    let Some(before) = length.checked_sub(left).filter(|&n| n > 0) else {
                        continue;
                    };
                    model.keep(before);
                    model.poison_free_slots().unwrap();
                    let made = ids_only(&mut model, prompt, 0);
                    // The last token is read again if nothing is left: its logits are wanted.
                    let reused = before.min(length - 1);
                    assert_eq!(made.times.reused_tokens, reused);
                    assert_eq!(made.times.prefill_tokens, length - reused);
                    check(&model, &format!("with {left} left"));
                }
            }
            model.keep(0);
            model.poison_free_slots().unwrap();
            let made = ids_only(&mut model, &tiny.ids[..tiny.prompt], 8);
            assert_eq!(made.ids, tiny.greedy[..8], "{}: after all that", tiny.name);
        }
    }
}

#[test]
fn text_streams_whole_characters_until_a_length_an_end_or_a_stop_string() {
    let spoken = Spoken::new();
    let mut model = spoken.model();
    let (made, streamed) = spoken.run(&mut model, &spoken.request(12)).unwrap();
    assert_eq!(made.ids, spoken.tiny.greedy[..12]);
    assert_eq!(made.finish, Finish::Length);
    assert_eq!(made.text.as_deref(), Some(streamed.as_str()));
    assert_eq!(streamed, spoken.tokenizer.decode(&made.ids));
    assert_eq!(made.times.decode_tokens, 11);

    // Two tokens make this stop string: `v`, `_`.
    let request = Request { stop: vec!["v_".to_owned()], ..spoken.request(12) };
    let (made, streamed) = spoken.run(&mut model, &request).unwrap();
    assert_eq!((streamed.as_str(), made.finish), ("v", Finish::Stop));
    assert_eq!(made.ids, spoken.tiny.greedy[..3]);
    assert_eq!(made.text.as_deref(), Some("v"));

    // What only began like a stop string is printed in the end.
    let request = Request { stop: vec!["vvv".to_owned()], ..spoken.request(2) };
    let (made, streamed) = spoken.run(&mut model, &request).unwrap();
    assert_eq!((streamed.as_str(), made.finish), ("vv", Finish::Length));

    // The model's end token is 2, the 23rd.
    let request = Request { ignore_end: false, ..spoken.request(24) };
    let (made, streamed) = spoken.run(&mut model, &request).unwrap();
    assert_eq!(made.finish, Finish::Stop);
    assert_eq!(made.ids, spoken.tiny.greedy[..23]);
    assert_eq!(streamed, spoken.tokenizer.decode(&made.ids[..22]), "an end token has no text");
}

#[test]
fn limits_are_errors_with_both_counts() {
    let spoken = Spoken::new();
    let mut model = spoken.model();
    let error = |model: &mut Model, request: &Request| {
        spoken.run(model, request).map(|(made, _)| made.ids).unwrap_err().to_string()
    };
    assert_eq!(
        error(&mut model, &spoken.request(46)),
        "the prompt has 19 tokens and 46 more may follow, 65 in all, but the context has 64"
    );
    let endless = Request { max_tokens: None, ..spoken.request(0) };
    assert_eq!(
        error(&mut model, &endless),
        "the context of 64 tokens is full: 19 of the prompt and 46 generated"
    );
    let nothing = Request { prompt: Vec::new(), ..spoken.request(1) };
    assert_eq!(error(&mut model, &nothing), "the prompt has no tokens");
    let odd = Request { prompt: vec![1, 256], ..spoken.request(1) };
    assert_eq!(error(&mut model, &odd), "token id 256 at place 1 is not in the vocabulary of 256");
    let cold = Settings { temperature: -1.0, ..Settings::default() };
    let cold = Request { sampling: cold, ..spoken.request(1) };
    assert!(error(&mut model, &cold).contains("temperature"));
    for options in [
        Options { chunk: 0, ..tiny::options(1) },
        Options { context: 0, ..tiny::options(1) },
        Options { context: 513, ..tiny::options(1) },
    ] {
        assert!(Model::load(&spoken.tiny.checkpoint, &Device::interpreter(), &options).is_err());
    }
}

#[test]
fn cancelling_keeps_what_there_is() {
    let spoken = Spoken::new();
    let mut model = spoken.model();
    let stop = AtomicBool::new(true);
    let mut ignore = |_: &str| ControlFlow::Continue(());
    let request = spoken.request(12);
    let made = generate(&mut model, Some(&spoken.tokenizer), &request, &stop, &mut ignore).unwrap();
    assert_eq!((made.finish, made.ids.len()), (Finish::Cancelled, 0));

    stop.store(false, Ordering::Relaxed);
    let mut pieces = 0;
    let mut after_two = |_: &str| {
        pieces += 1;
        stop.store(pieces == 2, Ordering::Relaxed);
        ControlFlow::Continue(())
    };
    let made =
        generate(&mut model, Some(&spoken.tokenizer), &request, &stop, &mut after_two).unwrap();
    assert_eq!((made.finish, made.text.as_deref()), (Finish::Cancelled, Some("vv")));

    let go = AtomicBool::new(false);
    let mut enough = |_: &str| ControlFlow::Break(());
    let made = generate(&mut model, Some(&spoken.tokenizer), &request, &go, &mut enough).unwrap();
    assert_eq!((made.finish, made.text.as_deref()), (Finish::Cancelled, Some("v")));
}

#[test]
fn one_seed_one_text() {
    let spoken = Spoken::new();
    let mut model = spoken.model();
    let drawn = |model: &mut Model, seed| {
        let sampling = Settings { temperature: 1.5, seed, ..Settings::default() };
        spoken.run(model, &Request { sampling, ..spoken.request(8) }).unwrap().0.ids
    };
    let first = drawn(&mut model, 7);
    assert_eq!(drawn(&mut model, 7), first);
    assert_ne!(drawn(&mut model, 8), first);
    // A temperature that is nearly 0 draws what greedy takes, on the host.
    let sampling = Settings { temperature: 1e-6, ..Settings::default() };
    let (made, _) = spoken.run(&mut model, &Request { sampling, ..spoken.request(8) }).unwrap();
    assert_eq!(made.ids, spoken.tiny.greedy[..8]);
}

#[test]
fn a_conversation_reads_its_prefix_once() {
    let spoken = Spoken::new();
    let mut model = spoken.model();
    let mut talk = Conversation::new(&spoken.tokenizer, &spoken.template, Some("be"));
    let go = AtomicBool::new(false);
    let mut ignore = |_: &str| ControlFlow::Continue(());
    let request = Request { max_tokens: Some(4), ignore_end: true, ..Request::default() };
    let first = talk.say(&mut model, "hi", &request, &go, &mut ignore).unwrap();
    assert_eq!(first.times.reused_tokens, 0);
    let prompt = "s:be\nu:hi\na:".len();
    assert_eq!(first.times.prefill_tokens, prompt);
    let second = talk.say(&mut model, "so", &request, &go, &mut ignore).unwrap();
    // The first prompt at least; its answer too, as far as its bytes survive as text.
    assert!(second.times.reused_tokens >= prompt, "{:?}", second.times);
    let roles: Vec<&str> = talk.messages().iter().map(|m| m.role.as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user", "assistant"]);

    // The same as reading it all anew.
    let answer = second.ids;
    let ids = spoken.template.render_ids(&spoken.tokenizer, &talk.messages()[..4], true).unwrap();
    let mut fresh = spoken.model();
    assert_eq!(ids_only(&mut fresh, &ids, 4).ids, answer);

    // What fails is not part of the conversation.
    let too_long = "x".repeat(64);
    assert!(talk.say(&mut model, &too_long, &request, &go, &mut ignore).is_err());
    assert_eq!(talk.messages().len(), 5);
}

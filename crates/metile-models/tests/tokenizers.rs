//! Text to ids and back.

mod toy;

use metile_models::checkpoint::Checkpoint;
use metile_models::tokenizer::Tokenizer;
use serde_json::{Value, json};
use toy::{Gguf, config, folder, gguf_model, tensors, tokenizer_json, with, write_json};

fn from_gguf(model: &Gguf) -> Result<Tokenizer, String> {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = Checkpoint::open(&model.write(folder.path())).map_err(|e| e.to_string())?;
    Tokenizer::from_checkpoint(&checkpoint).map_err(|error| error.to_string())
}

fn from_json(tokenizer: &Value, settings: &Value) -> Result<Tokenizer, String> {
    let config = with(config("llama"), json!({"tie_word_embeddings": true}));
    let folder = folder(&config, &tensors("llama", 16));
    write_json(folder.path(), "tokenizer.json", tokenizer);
    write_json(folder.path(), "tokenizer_config.json", settings);
    let checkpoint = Checkpoint::open(folder.path()).map_err(|error| error.to_string())?;
    Tokenizer::from_checkpoint(&checkpoint).map_err(|error| error.to_string())
}

/// A model whose vocabulary has every word of up to four of these characters, however it is merged, so
/// that tokens are the words that the split gives.
fn splitting(pre: &str, characters: &str) -> Gguf {
    let mut tokens = toy::byte_characters();
    let mut merges = Vec::new();
    let mut words: Vec<String> = characters.chars().map(String::from).collect();
    for _ in 0..3 {
        let longer = words.iter().flat_map(|w| characters.chars().map(move |c| format!("{w}{c}")));
        words = longer.collect();
        tokens.extend(words.iter().cloned());
        for word in &words {
            let places = word.char_indices().skip(1);
            merges.extend(places.map(|(at, _)| format!("{} {}", &word[..at], &word[at..])));
        }
    }
    let types = vec![1; tokens.len()];
    gguf_model("qwen2", 16)
        .texts("tokenizer.ggml.tokens", &tokens)
        .i32s("tokenizer.ggml.token_type", &types)
        .texts("tokenizer.ggml.merges", &merges)
        .text("tokenizer.ggml.pre", pre)
        .zeros("token_embd.weight", &[toy::WIDTH, tokens.len() as u64])
}

/// The text's tokens, each decoded.
fn words(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
    let ids = tokenizer.encode(text).unwrap();
    assert_eq!(tokenizer.decode(&ids), text);
    ids.iter().map(|&id| tokenizer.decode(&[id])).collect()
}

#[test]
fn words_are_split_as_each_rule_says() {
    // A space is written as Ġ and a line end as Ċ.
    let characters = "->1Ċ";
    let tokenizer = |pre| from_gguf(&splitting(pre, characters)).unwrap();
    let (gpt2, qwen2, llama3, smollm) =
        (tokenizer("gpt-2"), tokenizer("qwen2"), tokenizer("llama-bpe"), tokenizer("smollm"));
    // Digits: a run, one by one, up to three, one by one.
    assert_eq!(words(&gpt2, "1111"), ["1111"]);
    assert_eq!(words(&qwen2, "1111"), ["1", "1", "1", "1"]);
    assert_eq!(words(&llama3, "1111"), ["111", "1"]);
    assert_eq!(words(&smollm, "1111"), ["1", "1", "1", "1"]);
    // Symbols stay together; with Qwen's and Llama 3's rules they take line ends along.
    for tokenizer in [&gpt2, &qwen2, &llama3, &smollm] {
        assert_eq!(words(tokenizer, "->"), ["->"]);
        assert_eq!(words(tokenizer, "1->1"), ["1", "->", "1"]);
    }
    assert_eq!(words(&gpt2, "->\n"), ["->", "\n"]);
    assert_eq!(words(&smollm, "->\n"), ["->", "\n"]);
    assert_eq!(words(&qwen2, "->\n"), ["->\n"]);
    assert_eq!(words(&llama3, "->\n"), ["->\n"]);
}

#[test]
fn contractions_and_spaces_go_as_qwens_rule_says() {
    let tokenizer = from_gguf(&splitting("qwen2", "Ġat'n")).unwrap();
    assert_eq!(words(&tokenizer, "an't"), ["an", "'t"]);
    assert_eq!(words(&tokenizer, "AN"), ["A", "N"]);
    // The last of several spaces belongs to the word.
    assert_eq!(words(&tokenizer, "   a"), ["  ", " a"]);
    assert_eq!(words(&tokenizer, "a  "), ["a", "  "]);
    // Llama 3's rule is about letters too, in every script, and Qwen composes accents first.
    let ids = tokenizer.encode("e\u{301}").unwrap();
    assert_eq!(tokenizer.decode(&ids), "é");
}

#[test]
fn both_formats_of_one_vocabulary_give_the_same_ids() {
    let gguf = from_gguf(&gguf_model("llama", 16)).unwrap();
    let json = from_json(&tokenizer_json(), &json!({})).unwrap();
    for text in [
        "",
        " ",
        "abc",
        "abcabc ab c",
        "don't  stop",
        "(x):\n\n  return 1234;\r\n",
        "é ü ß 漢字 🦀",
        "<|im_end|> <think>",
        "\u{0}\u{7f}",
        "tab\tand\u{a0}space",
        "  a\n \n b",
    ] {
        let ids = gguf.encode(text).unwrap();
        assert_eq!(ids, json.encode(text).unwrap(), "{text:?}");
        assert_eq!(gguf.decode(&ids), text);
        assert_eq!(
            gguf.encode_with_control(text).unwrap(),
            json.encode_with_control(text).unwrap()
        );
        assert!(ids.iter().all(|&id| !gguf.is_control(id)), "{text:?}");
    }
    assert_eq!(gguf.encode("abc").unwrap(), [266]);
    assert_eq!(gguf.encode_with_control("a<|im_end|>").unwrap(), [97, 258]);
}

#[test]
fn no_merge_or_whole_word_makes_a_control_token_of_text() {
    // A vocabulary whose merges, as trained, end in what was made a control token later.
    let gguf = gguf_model("llama", 16).i32s(
        "tokenizer.ggml.token_type",
        &(0..toy::vocabulary().len()).map(|id| if id == 266 { 3 } else { 1 }).collect::<Vec<_>>(),
    );
    let mut json = tokenizer_json();
    json["added_tokens"] = json!([{"id": 266, "content": "abc", "special": true}]);
    for tokenizer in [
        from_gguf(&gguf).unwrap(),
        from_gguf(&gguf.text("tokenizer.ggml.pre", "llama-bpe")).unwrap(),
        from_json(&json, &json!({})).unwrap(),
    ] {
        assert_eq!(tokenizer.encode("abc").unwrap(), [265, 99]);
        assert_eq!(tokenizer.encode_with_control("abc").unwrap(), [266]);
        assert_eq!(tokenizer.decode(&[265, 99]), "abc");
    }
}

#[test]
fn a_missing_or_unknown_word_split_is_refused() {
    let error = from_gguf(&gguf_model("llama", 16).without("tokenizer.ggml.pre")).unwrap_err();
    assert!(
        error.contains("`tokenizer.ggml.pre` is missing") && error.contains("qwen2"),
        "{error}"
    );
    for unknown in ["default", "deepseek-llm", ""] {
        let model = gguf_model("llama", 16).text("tokenizer.ggml.pre", unknown);
        let error = from_gguf(&model).unwrap_err();
        assert!(
            error.contains(&format!("`{unknown}` is not known")) && error.contains("smollm"),
            "{error}"
        );
    }
}

#[test]
fn vocabularies_that_cannot_be_right_are_refused_by_name() {
    let base = || gguf_model("llama", 16);
    for (model, part) in [
        (base().text("tokenizer.ggml.model", "bert"), "`bert` tokenizers are not supported"),
        (base().without("tokenizer.ggml.model"), "the file holds no tokenizer"),
        (base().without("tokenizer.ggml.merges"), "`tokenizer.ggml.merges`: the key is missing"),
        (
            base().without("tokenizer.ggml.token_type"),
            "`tokenizer.ggml.token_type`: the key is missing",
        ),
        (base().i32s("tokenizer.ggml.token_type", &[1]), "1 types for 267 tokens"),
        (base().i32s("tokenizer.ggml.token_type", &[9; 267]), "token 0 has type 9"),
        (base().texts("tokenizer.ggml.merges", &["ab"]), "merge 0, `ab`"),
        (base().texts("tokenizer.ggml.merges", &["a zzz"]), "zzz"),
        (base().i32s("tokenizer.ggml.tokens", &[1]), "not a list of texts"),
        (
            base().text("tokenizer.ggml.model", "llama").u32("tokenizer.ggml.bos_token_id", 259),
            "`tokenizer.ggml.scores`",
        ),
    ] {
        let error = from_gguf(&model).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    for (pointer, value, part) in [
        ("/model/type", json!("Unigram"), "its model is Unigram"),
        ("/model/dropout", json!(0.1), "dropout"),
        ("/decoder", json!({"type": "WordPiece"}), "its decoder is WordPiece"),
        ("/decoder", Value::Null, "no decoder"),
        ("/model/vocab/a", json!(5000), "id 5000, but the model has 272 tokens"),
        ("/added_tokens/0/content", json!(""), "token 256 is empty"),
        ("/added_tokens/0/content", json!("<|im_end|>"), "there twice"),
    ] {
        let mut tokenizer = tokenizer_json();
        *tokenizer.pointer_mut(pointer).unwrap() = value;
        let error = from_json(&tokenizer, &json!({})).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    let mut tokenizer = tokenizer_json();
    tokenizer["added_tokens"][0]["id"] = json!(272);
    let tokenizer = from_json(&tokenizer, &json!({})).unwrap();
    assert!(tokenizer.notes()[0].contains("<|endoftext|>"), "{:?}", tokenizer.notes());
    assert_eq!(tokenizer.id("<|endoftext|>"), None);
}

#[test]
fn prompts_begin_with_the_begin_token_only_where_the_checkpoint_says_so() {
    let begin = json!({"bos_token": "<|begin_of_text|>"});
    let mut template = tokenizer_json();
    template["post_processor"] = json!({"type": "Sequence", "processors": [
        {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}},
         {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
         "special_tokens": {"<|begin_of_text|>": {"id": "<|begin_of_text|>", "ids": [259], "tokens": ["<|begin_of_text|>"]}}}]});
    let plain = tokenizer_json();
    let yes = json!({"bos_token": "<|begin_of_text|>", "add_bos_token": true});
    let no = json!({"bos_token": "<|begin_of_text|>", "add_bos_token": false});
    for (tokenizer, settings, ids) in [
        (&plain, &begin, vec![97]),
        (&plain, &yes, vec![259, 97]),
        (&template, &begin, vec![259, 97]),
        (&template, &json!({}), vec![259, 97]),
        (&template, &no, vec![97]),
    ] {
        assert_eq!(from_json(tokenizer, settings).unwrap().encode("a").unwrap(), ids);
    }
    let model = gguf_model("llama", 16).u32("tokenizer.ggml.bos_token_id", 259);
    assert!(from_gguf(&model).unwrap().encode("").unwrap().is_empty());
    let adds = model.truth("tokenizer.ggml.add_bos_token", true);
    assert_eq!(from_gguf(&adds).unwrap().encode("").unwrap(), [259]);
    let error = from_gguf(&adds.without("tokenizer.ggml.bos_token_id")).unwrap_err();
    assert!(error.contains("names no token"), "{error}");
}

#[test]
fn streams_never_split_a_character() {
    let tokenizer = from_gguf(&gguf_model("llama", 16)).unwrap();
    for text in ["é", "漢字", "🦀 and é", "x🦀"] {
        let mut stream = tokenizer.stream();
        let mut parts = Vec::new();
        for id in tokenizer.encode(text).unwrap() {
            parts.extend(stream.push(id));
        }
        assert_eq!(stream.finish(), None);
        assert_eq!(parts.concat(), text);
        assert!(parts.iter().all(|part| !part.contains('\u{FFFD}') && !part.is_empty()));
    }
    let byte = |byte: u8| {
        let token = &toy::byte_characters()[usize::from(byte)];
        tokenizer.id(token).unwrap()
    };
    // The start of a character that does not go on, before text, a control token and the end.
    let mut stream = tokenizer.stream();
    assert_eq!(stream.push(byte(0xF0)), None);
    assert_eq!(stream.push(byte(0x9F)), None);
    assert_eq!(stream.push(byte(b'a')).as_deref(), Some("\u{FFFD}a"));
    assert_eq!(stream.push(byte(0xC3)), None);
    assert_eq!(stream.push(258).as_deref(), Some("\u{FFFD}<|im_end|>"));
    assert_eq!(stream.push(byte(0x80)).as_deref(), Some("\u{FFFD}"));
    assert_eq!(stream.push(byte(0xE6)), None);
    // An id that no token has.
    assert_eq!(stream.push(271), None);
    assert_eq!(stream.push(u32::MAX), None);
    assert_eq!(stream.finish().as_deref(), Some("\u{FFFD}"));
    assert_eq!(stream.finish(), None);
}

/// A SentencePiece vocabulary: control tokens, bytes, and words with scores.
fn sentencepiece() -> Gguf {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
    let mut types = vec![2, 3, 3];
    let mut scores = vec![0.0; 3];
    for byte in 0..=255u8 {
        tokens.push(format!("<0x{byte:02X}>"));
        types.push(6);
        scores.push(0.0);
    }
    for (n, word) in ["▁a", "▁ab", "ab", "bc", "▁", "a", "b", "c"].into_iter().enumerate() {
        tokens.push(word.to_owned());
        types.push(1);
        scores.push(-(n as f32));
    }
    gguf_model("llama", 16)
        .text("tokenizer.ggml.model", "llama")
        .texts("tokenizer.ggml.tokens", &tokens)
        .i32s("tokenizer.ggml.token_type", &types)
        .f32s("tokenizer.ggml.scores", &scores)
        .u32("tokenizer.ggml.bos_token_id", 1)
}

#[test]
fn sentencepiece_vocabularies_join_by_score_and_fall_back_to_bytes() {
    let tokenizer = from_gguf(&sentencepiece()).unwrap();
    let id = |token: &str| tokenizer.id(token).unwrap();
    // Texts begin with <s> unless the file says otherwise, and with a space that decoding drops.
    assert_eq!(tokenizer.encode("ab").unwrap(), [1, id("▁ab")]);
    assert_eq!(tokenizer.decode(&[id("▁ab")]), "ab");
    // `ab` is better than `bc`.
    assert_eq!(tokenizer.encode("c abc").unwrap(), [1, id("▁"), id("c"), id("▁ab"), id("c")]);
    assert_eq!(tokenizer.encode("é").unwrap(), [1, id("▁"), id("<0xC3>"), id("<0xA9>")]);
    assert_eq!(tokenizer.decode(&[id("▁"), id("<0xC3>"), id("<0xA9>")]), "é");
    // A control token's spelling is text.
    assert!(tokenizer.encode("</s>").unwrap()[1..].iter().all(|&id| !tokenizer.is_control(id)));
    let plain = sentencepiece().truth("tokenizer.ggml.add_bos_token", false);
    let plain = from_gguf(&plain.truth("tokenizer.ggml.add_space_prefix", false)).unwrap();
    assert_eq!(plain.encode("ab").unwrap(), [plain.id("ab").unwrap()]);
}

/// The tokens of Qwen2's vocabulary that the texts below are made of, in GPT-2's spelling, with their
/// ids; what is of several characters is merged from the two parts given.
const QWEN2: [(u32, &str, &str); 27] = [
    (6, "'", ""),
    (7, "(", ""),
    (8, ")", ""),
    (12, "-", ""),
    (16, "1", ""),
    (17, "2", ""),
    (18, "3", ""),
    (19, "4", ""),
    (25, ":", ""),
    (29, ">", ""),
    (64, "a", ""),
    (67, "d", ""),
    (77, "n", ""),
    (78, "o", ""),
    (83, "t", ""),
    (87, "x", ""),
    (102, "©", ""),
    (127, "Ã", ""),
    (198, "Ċ", ""),
    (220, "Ġ", ""),
    (263, "o", "n"),
    (264, "Ġ", "a"),
    (405, "-", ">"),
    (510, ":", "Ċ"),
    (944, "'", "t"),
    (963, "Ã", "©"),
    (982, ")", ":Ċ"),
];

#[test]
fn qwen2_texts_have_the_ids_of_its_own_tokenizer() {
    let rest = [(2075, "(", "x"), (15_007, "d", "on")];
    let mut tokens: Vec<String> = (0..15_008).map(|id| format!("<unused {id}>")).collect();
    let mut merges = Vec::new();
    for (id, left, right) in QWEN2.into_iter().chain(rest) {
        tokens[id as usize] = format!("{left}{right}");
        if !right.is_empty() {
            merges.push(format!("{left} {right}"));
        }
    }
    let types = vec![1; tokens.len()];
    let model = gguf_model("qwen2", 16)
        .texts("tokenizer.ggml.tokens", &tokens)
        .i32s("tokenizer.ggml.token_type", &types)
        .texts("tokenizer.ggml.merges", &merges)
        .zeros("token_embd.weight", &[toy::WIDTH, tokens.len() as u64]);
    let tokenizer = from_gguf(&model).unwrap();
    for (text, ids) in [
        ("->", &[405][..]),
        ("(x):\n", &[2075, 982]),
        ("1234", &[16, 17, 18, 19]),
        ("don't", &[15_007, 944]),
        ("é", &[963]),
        ("  a", &[220, 264]),
    ] {
        assert_eq!(tokenizer.encode(text).unwrap(), ids, "{text:?}");
        assert_eq!(tokenizer.decode(ids), text);
    }
}

//! Studies of models: ids, counts, cache entries, and what the long-document study asks beside them.

use super::Findings;
use crate::check::agrees;
use crate::fingerprint;
use crate::schema::{Case, Phase, Report, Scope, Sequence, Tolerance};

pub(super) fn verify(report: &Report, findings: &mut Findings) {
    for (p, phase) in report.phases.iter().enumerate() {
        for (c, case) in phase.cases.iter().enumerate() {
            let place = format!("phases[{p}] ({}).cases[{c}] ({})", phase.name, case.name);
            if case.trials.iter().any(|trial| trial.output_sequence.is_some()) {
                sequences(report, case, &place, findings);
            }
        }
    }
    if report.declaration.name == "qwen3-chunked-prefill" {
        long_document(report, findings);
    }
}

fn number(case: &Case, name: &str) -> Option<u64> {
    case.parameters.get(name).and_then(serde_json::Value::as_u64)
}

fn sequence<'r>(report: &'r Report, name: &str) -> Option<&'r Sequence> {
    report.subject.sequences.iter().find(|s| s.name == name)
}

/// Every warm-up and trial wrote the validated ids, as many as asked, and filled the cache as far as it must.
fn sequences(report: &Report, case: &Case, place: &str, findings: &mut Findings) {
    let (Some(prompt), Some(outputs)) =
        (number(case, "prompt_tokens"), number(case, "output_tokens"))
    else {
        findings.wrong(
            "complete",
            place,
            "a study of models names prompt_tokens and output_tokens",
        );
        return;
    };
    let entries = prompt.saturating_add(outputs).saturating_sub(1);
    for arm in &case.arms {
        let warm = case
            .warmup_runs
            .iter()
            .filter(|run| run.arm == *arm)
            .map(|run| ("a warm-up", &run.verified, &run.output_sequence, &run.inputs_sha256));
        let timed = case.trials.iter().filter(|trial| trial.arm == *arm).map(|trial| {
            ("a trial", &trial.verified, &trial.output_sequence, &trial.inputs_sha256)
        });
        let mut names = Vec::new();
        for (what, verified, name, inputs) in warm.chain(timed) {
            let got = |kind: &str| verified.get(kind).copied();
            if got("tokens") != Some(outputs) {
                findings.wrong(
                    "sequence count",
                    place,
                    format!("{what} of `{arm}` verified {:?} tokens of {outputs}", got("tokens")),
                );
            }
            if got("cache_entries") != Some(entries) {
                findings.wrong(
                    "cache length",
                    place,
                    format!(
                        "{what} of `{arm}` left {:?} valid cache entries; {prompt} tokens in and {outputs} out \
                         leave {entries}",
                        got("cache_entries")
                    ),
                );
            }
            names.push(name.as_deref());
            prompt_is(report, case, inputs, prompt, place, findings);
        }
        names.sort_unstable();
        names.dedup();
        match names.as_slice() {
            [Some(name)] => match sequence(report, name) {
                Some(s) if s.ids.len() as u64 == outputs => {}
                Some(s) => {
                    let message = format!("`{name}` has {} ids of {outputs}", s.ids.len());
                    findings.wrong("sequence count", place, message);
                }
                None => findings.wrong("complete", place, format!("there is no sequence `{name}`")),
            },
            _ => findings.wrong(
                "validated ids",
                place,
                format!("the runs of `{arm}` wrote {} different sequences: {names:?}", names.len()),
            ),
        }
    }
    same_tokens(report, case, place, findings);
}

/// What went in is the prompt that the report has.
fn prompt_is(
    report: &Report,
    case: &Case,
    inputs: &str,
    prompt: u64,
    place: &str,
    findings: &mut Findings,
) {
    let Some(name) = case.parameters.get("prompt").and_then(serde_json::Value::as_str) else {
        return;
    };
    let Some(s) = sequence(report, name) else {
        // Prompts of fixed synthetic ids need not be there by name.
        return;
    };
    if s.ids.len() as u64 != prompt || fingerprint::of_ids(&s.ids) != inputs {
        let said = "prompt ids";
        if !findings.wrong.iter().any(|f| f.rule == said && f.place == place) {
            findings.wrong(
                said,
                place,
                format!("what ran was not `{name}` with its {} ids", s.ids.len()),
            );
        }
    }
}

/// Arms that were gated to write the same tokens wrote the same tokens.
fn same_tokens(report: &Report, case: &Case, place: &str, findings: &mut Findings) {
    let ids = |arm: &str| {
        let trial = case.trials.iter().find(|t| t.arm == arm)?;
        sequence(report, trial.output_sequence.as_deref()?).map(|s| &s.ids)
    };
    for gate in case.gates.iter().filter(|g| g.decides && g.tolerance == Tolerance::SameTokens) {
        if let (Some(a), Some(b)) = (ids(&gate.arm), ids(&gate.against))
            && a != b
            && gate.name.contains("timed")
        {
            findings.wrong(
                "validated ids",
                place,
                format!(
                    "`{}` and `{}` are held to the same tokens and wrote others",
                    gate.arm, gate.against
                ),
            );
        }
    }
    for trial in &case.trials {
        let at = |name: &str| trial.values.get(name).copied();
        if let (Some(first), Some(rest), Some(total)) = (at("ttft"), at("decode"), at("total"))
            && !agrees(first + rest, total)
            && (first + rest - total).abs() > 1e-9 * total.abs()
        {
            findings.wrong(
                "timing boundary",
                place,
                format!(
                    "pair {}: {first} to the first token and {rest} after it are not {total}",
                    trial.pair
                ),
            );
        }
    }
}

/// Sizes that always run.
const CHUNKS: [u64; 4] = [128, 256, 512, 1024];

/// What has to be said wherever the result is shown.
const DISCLOSURES: [&str; 5] = [
    "one document",
    "held-out means chunk selection only",
    "of one session establish neither parity nor a win",
    "a whole-backend result, not an ablation",
    "warmed token-id-to-token-id, not cold start or serving latency",
];

fn long_document(report: &Report, findings: &mut Findings) {
    for said in DISCLOSURES {
        if !report.declaration.disclosures.iter().any(|d| d.contains(said)) {
            findings.wrong(
                "disclosures",
                "declaration.disclosures",
                format!("`{said}` is missing"),
            );
        }
    }
    let [tuning, held_out] = report.phases.as_slice() else {
        findings.wrong(
            "tuning and held-out",
            "phases",
            "there is a tuning phase, then a held-out one",
        );
        return;
    };
    if (tuning.scope, held_out.scope) != (Scope::Tuning, Scope::HeldOut) {
        findings.wrong(
            "tuning and held-out",
            "phases",
            format!("their scopes are {:?} and {:?}", tuning.scope, held_out.scope),
        );
    }
    for size in CHUNKS {
        if !tuning.cases.iter().any(|case| number(case, "chunk") == Some(size)) {
            findings.wrong("missing trial", "phases[0]", format!("chunk {size} did not run"));
        }
    }
    let chosen = tuning.selection.as_ref();
    if chosen.is_some_and(|s| s.metric != "ttft" || s.parameter != "chunk") {
        findings.wrong(
            "selection",
            "phases[0].selection",
            "the chunk is chosen by the time to the first token",
        );
    }
    let case = chosen.and_then(|s| tuning.cases.iter().find(|c| c.name == s.case));
    let chunk = case.and_then(|c| number(c, "chunk"));
    if held_out.cases.is_empty() || held_out.cases.iter().any(|c| number(c, "chunk") != chunk) {
        findings.wrong(
            "tuning and held-out",
            "phases[1]",
            format!("the held-out phase runs the chosen chunk, {chunk:?}, alone"),
        );
    }
    held_out_evidence(report, tuning, held_out, findings);
}

/// Held-out evidence is of the held-out document, and no tuning sample is in it.
fn held_out_evidence(report: &Report, tuning: &Phase, held_out: &Phase, findings: &mut Findings) {
    for (phase, scope) in [(tuning, Scope::Tuning), (held_out, Scope::HeldOut)] {
        for case in &phase.cases {
            let prompt = case.parameters.get("prompt").and_then(serde_json::Value::as_str);
            let of = report.subject.documents.iter().find(|d| Some(d.sequence.as_str()) == prompt);
            if of.is_none_or(|document| document.scope != scope) {
                findings.wrong(
                    "tuning and held-out",
                    format!("phases ({}).cases ({})", phase.name, case.name),
                    format!("its prompt {prompt:?} is of no document for {scope:?}"),
                );
            }
        }
    }
    let tuned: Vec<_> = tuning.cases.iter().flat_map(|c| &c.trials).collect();
    let again = held_out
        .cases
        .iter()
        .flat_map(|c| &c.trials)
        .any(|trial| tuned.iter().any(|t| t.arm == trial.arm && t.values == trial.values));
    if again {
        findings.wrong(
            "tuning and held-out",
            "phases[1]",
            "a tuning sample is offered as held-out evidence",
        );
    }
}

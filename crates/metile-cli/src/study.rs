//! `metile study`: measure what the catalogue declares.

use crate::interrupt::Interrupt;
use crate::options::DeviceName;
use crate::report;
use anyhow::{Context, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, builder::PossibleValuesParser, value_parser};
use metile_bench::environment;
use metile_bench::schema::write::Destination;
use metile_bench::schema::{Acceptance, Clock, Declaration, GateClass, Report, Status};
use metile_bench::study::driver::{self, Finished, Run};
use metile_bench::study::{Chosen, Entry, OptionKind, OptionSpec, Setup, catalogue};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;

/// `study` with a command for every study.
pub fn command() -> Command {
    let all = Command::new("study")
        .about("Measure: paired trials behind gates, and a report that can be checked")
        .arg_required_else_help(true)
        .subcommand_required(true)
        .subcommand(Command::new("list").about("All studies, and which wait for what"));
    catalogue().iter().fold(all, |all, entry| all.subcommand(command_of(entry)))
}

fn command_of(entry: &Entry) -> Command {
    let declaration = (entry.declaration)();
    let mut about = declaration.title.clone();
    if let Err(waits) = entry.open {
        let _ = write!(about, " ({waits})");
    }
    let command = Command::new(declaration.name.clone())
        .about(about)
        .long_about(in_words(&declaration))
        .arg(
            Arg::new("device")
                .long("device")
                .value_parser(value_parser!(DeviceName))
                .default_value("cpu")
                .help("Where the candidate computes"),
        )
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .value_parser(value_parser!(u64))
                .default_value("0")
                .help("Draws inputs and which arm is first"),
        )
        .arg(
            Arg::new("output")
                .long("output")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help(
                    "Where the report goes; a file that exists is not touched [default: \
                       reports/DEVICE-STUDY-DATE.json]",
                ),
        );
    entry.options.iter().fold(command, |command, option| command.args(arguments_of(option)))
}

fn arguments_of(option: &OptionSpec) -> Vec<Arg> {
    let help = match option.default {
        Some(default) if option.kind != OptionKind::Flag => {
            format!("{} [default: {default}]", option.help)
        }
        _ => option.help.to_owned(),
    };
    let arg = Arg::new(option.name).long(option.name).help(help);
    match option.kind {
        OptionKind::Flag => {
            let no = format!("no-{}", option.name);
            let help = format!("The opposite of --{}", option.name);
            let (yes, no) = (
                arg.action(ArgAction::SetTrue).overrides_with(no.clone()),
                Arg::new(no.clone()).long(no).help(help).action(ArgAction::SetTrue),
            );
            vec![yes, no.overrides_with(option.name)]
        }
        OptionKind::Count | OptionKind::Number => vec![arg.value_name("N")],
        OptionKind::Counts => vec![arg.value_name("N").num_args(1..)],
        OptionKind::Text => vec![arg.value_name("TEXT")],
        OptionKind::Texts => vec![arg.value_name("TEXT").num_args(1..)],
        OptionKind::OneOf(names) => vec![arg.value_parser(PossibleValuesParser::new(names))],
        OptionKind::Path => vec![arg.value_name("PATH")],
    }
}

fn gate_class(class: GateClass) -> &'static str {
    match class {
        GateClass::State => "state",
        GateClass::Outputs => "outputs",
        GateClass::Tokens => "tokens",
        GateClass::None => "none",
    }
}

/// The declaration as `--help` shows it.
fn in_words(d: &Declaration) -> String {
    let mut text = format!("{}\n\nWorkload: {}\n\n", d.title, d.workload);
    // Writing to a String can't fail.
    let _ = writeln!(text, "Gate ({}): {}\n", gate_class(d.gate_class), d.gate);
    let _ = writeln!(text, "Timing: from {} to {}.", d.boundary.starts, d.boundary.ends);
    let _ = writeln!(text, "  within: {}", d.boundary.includes.join("; "));
    let _ = writeln!(text, "  outside: {}", d.boundary.excludes.join("; "));
    for metric in &d.metrics {
        let clock = if metric.clock == Clock::Wall { "wall" } else { "device" };
        let _ = writeln!(
            text,
            "  {} ({clock} clock, {}): {}",
            metric.name, metric.unit, metric.boundary
        );
    }
    let _ = writeln!(
        text,
        "\nTrials: {} warm-ups an arm, then {} pairs in alternating order, the first arm drawn by the seed; {}.",
        d.warmups,
        d.pairs,
        estimator(d)
    );
    if let Some(accepted) = acceptance(&d.acceptance) {
        let _ = writeln!(text, "\nHeld to: {accepted}.");
    }
    for disclosure in &d.disclosures {
        let _ = writeln!(text, "\nTo be said with every result: {disclosure}.");
    }
    text
}

fn estimator(d: &Declaration) -> &'static str {
    use metile_bench::schema::Estimator;
    match d.estimator {
        Estimator::MedianOfPairedRatios => {
            "a ratio is the median over pairs of baseline time / candidate time"
        }
        Estimator::RatioOfMedians => {
            "a ratio is the median baseline time / the median candidate time"
        }
    }
}

fn acceptance(acceptance: &Acceptance) -> Option<String> {
    Some(match acceptance {
        Acceptance::None => return None,
        Acceptance::IntervalHolds { metric, value } => {
            format!("every interval of `{metric}` holds {value:.2}")
        }
        Acceptance::Guard { metric, part } => {
            format!("no case's `{metric}` is slower by more than {:.0} %", part * 100.0)
        }
        Acceptance::Promotion { metric, ratio, series, part } => format!(
            "`{metric}` at least {ratio:.2} in {}, and nowhere slower by more than {:.0} %",
            series.join(", "),
            part * 100.0
        ),
    })
}

fn list() -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for entry in catalogue() {
        let d = (entry.declaration)();
        let waits = entry.open.err().map_or(String::new(), |waits| format!(" — {waits}"));
        writeln!(out, "{:<22} {}{waits}", d.name, d.title)?;
    }
    Ok(())
}

/// The options as given, without those left as they are by default.
fn given(entry: &Entry, matches: &ArgMatches) -> Vec<(String, Vec<String>)> {
    let one = |option: &OptionSpec| {
        let name = option.name.to_owned();
        if option.kind == OptionKind::Flag {
            let said = [(option.name.to_owned(), "yes"), (format!("no-{name}"), "no")];
            let (_, answer) = said.iter().find(|(flag, _)| matches.get_flag(flag))?;
            return Some((name, vec![(*answer).to_owned()]));
        }
        let values = matches.get_many::<String>(option.name)?;
        Some((name, values.cloned().collect()))
    };
    entry.options.iter().filter_map(one).collect()
}

/// Runs the command.
pub fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let (name, matches) = match matches.subcommand() {
        None | Some(("list", _)) => return list(),
        Some(both) => both,
    };
    let all = catalogue();
    let entry = all.iter().find(|e| (e.declaration)().name == name).context("no such study")?;
    let device = *matches.get_one::<DeviceName>("device").context("no device")?;
    let chosen = Chosen::new(entry.options, given(entry, matches))?;
    let seed = *matches.get_one::<u64>("seed").context("no seed")?;
    let device = device.open()?;
    let device_name = device.name().to_owned();
    let output = match matches.get_one::<PathBuf>("output") {
        Some(path) => path.clone(),
        None => {
            let date: String = environment::now().chars().take(10).collect();
            PathBuf::from(format!("reports/{device_name}-{name}-{date}.json"))
        }
    };
    // Before any work: a report that could not be written later is no use.
    let output = Destination::new(&output)?;
    let options = chosen.recorded();
    let setup = Setup { device, chosen, seed };
    let mut study = entry.open(&setup)?;
    let interrupt = Interrupt::install()?;
    let probe = || environment::limits(&device_name);
    let finished = interrupt.during(|interrupted| {
        let run = Run {
            output,
            seed,
            device: device_name.clone(),
            options,
            interrupted,
            progress: true,
            probe: &probe,
        };
        driver::run(study.as_mut(), run)
    })?;
    show(&finished)
}

fn show(Finished { report, path }: &Finished) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for phase in &report.phases {
        for case in &phase.cases {
            for line in lines(report, case) {
                writeln!(out, "{line}")?;
            }
        }
        for mean in &phase.overall {
            if let Some(value) = mean.geometric_mean.value {
                writeln!(
                    out,
                    "{:<34} {:<10} geometric mean of {} cases {value:.3} × {} / {}",
                    mean.series,
                    mean.metric,
                    mean.cases.len(),
                    mean.baseline,
                    mean.candidate
                )?;
            }
        }
    }
    match report.verdict.met {
        Some(true) => writeln!(out, "met what it is held to")?,
        Some(false) => {
            writeln!(out, "did not meet what it is held to:")?;
            for against in &report.verdict.against {
                writeln!(out, "  {against}")?;
            }
        }
        None => {}
    }
    report::note(format_args!("wrote {}", path.display()));
    match &report.failure {
        Some(failure) if report.status == Status::Failed => {
            let arm = failure.arm.as_ref().map_or(String::new(), |arm| format!(", arm {arm}"));
            bail!(
                "refused in {} {}{arm}: {}; {} timed trials were discarded",
                failure.phase,
                failure.case,
                failure.message,
                failure.discarded_trials
            )
        }
        _ => Ok(()),
    }
}

/// The ratios of a case.
fn lines(report: &Report, case: &metile_bench::schema::Case) -> Vec<String> {
    let median = |arm: &str, metric: &str| {
        let found = case.medians.iter().find(|m| m.arm == arm && m.metric == metric);
        found.and_then(|m| m.value.value).map_or("-".to_owned(), seconds)
    };
    let mut lines: Vec<String> = case
        .summaries
        .iter()
        .map(|s| {
            let ratio = s.ratio.value.map_or("-".to_owned(), |r| format!("{r:.3}"));
            let interval = s
                .interval
                .as_ref()
                .map_or(String::new(), |i| format!(" [{:.3}, {:.3}]", i.low, i.high));
            format!(
                "{:<34} {:<10} {:>10} {:<18} {:>10} {:<16} ratio {ratio}{interval}, n = {}",
                case.name,
                s.metric,
                median(&s.baseline, &s.metric),
                s.baseline,
                median(&s.candidate, &s.metric),
                s.candidate,
                s.pairs
            )
        })
        .collect();
    if report.status == Status::Complete {
        for absent in &case.absent {
            lines.push(format!("{:<34} no {}: {}", case.name, absent.arm, absent.reason));
        }
    }
    lines
}

fn seconds(s: f64) -> String {
    match s {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.3} s"),
    }
}

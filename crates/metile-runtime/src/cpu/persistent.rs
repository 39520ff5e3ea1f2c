//! Programs that wait for each other: put aside and resumed.

use super::launch::Launch;
use super::machine::{Machine, Pause, Program, Worker};
use metile_compiler::cpu::Instr;
use metile_ir::Diagnostic;
use metile_ir::dtype::DType;
use metile_ir::interp::{Failure, MAX_WAITING};
use std::sync::{Mutex, PoisonError};

/// All programs of a launch.
pub(super) struct Together {
    state: Mutex<State>,
    programs: u64,
}

#[derive(Default)]
struct State {
    /// The next program that was never run.
    fresh: u64,
    ready: Vec<Program>,
    at_barrier: Vec<Program>,
    at_counter: Vec<Program>,
    running: usize,
    ended: u64,
    /// How often a program did something that another may wait for.
    changes: u64,
}

/// What a worker does next.
enum Next {
    /// A program, whether it is a fresh one, and the changes that it will see.
    Run(Box<Program>, bool, u64),
    Wait,
    Stop,
}

impl Together {
    pub fn new(programs: u64) -> Together {
        Together { state: Mutex::new(State::default()), programs }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One thread's share.
    pub fn share(&self, launch: &Launch<'_>, worker: &mut Worker) {
        loop {
            match self.next(launch) {
                Next::Stop => return,
                Next::Wait => std::hint::spin_loop(),
                Next::Run(mut program, fresh, seen) => {
                    let number = program.number;
                    let mut machine = Machine::new(launch, worker, &mut program);
                    let begun = if fresh { machine.begin() } else { Ok(()) };
                    if fresh && begun.is_ok() {
                        machine.start(number);
                    }
                    let ran = begun.and_then(|()| machine.run());
                    let moved = machine.moved;
                    // Others may go on from what this one wrote past the caches.
                    metile_simd::elementwise::fence();
                    self.put_back(launch, *program, ran, (moved, seen));
                }
            }
        }
    }

    fn next(&self, launch: &Launch<'_>) -> Next {
        let mut state = self.state();
        if launch.has_failed() || state.ended == self.programs {
            return Next::Stop;
        }
        if let Some(program) = state.ready.pop() {
            state.running += 1;
            return Next::Run(Box::new(program), false, state.changes);
        }
        if state.fresh < self.programs {
            let program = Program::new(state.fresh);
            state.fresh += 1;
            state.running += 1;
            return Next::Run(Box::new(program), true, state.changes);
        }
        if state.running > 0 {
            return Next::Wait;
        }
        launch.fail(0, deadlock(launch, &state, self.programs));
        Next::Stop
    }

    fn put_back(
        &self,
        launch: &Launch<'_>,
        program: Program,
        ran: Result<Pause, Failure>,
        (moved, seen): (bool, u64),
    ) {
        let mut state = self.state();
        state.running -= 1;
        let stale = state.changes != seen;
        state.changes += u64::from(moved);
        match ran {
            Err(failure) => return launch.fail(program.number, failure),
            Ok(Pause::Ended) => state.ended += 1,
            Ok(Pause::Barrier) => state.at_barrier.push(program),
            Ok(Pause::Counter) => {
                // Counters that others wait for change only if something was done.
                if moved {
                    let waiting = std::mem::take(&mut state.at_counter);
                    state.ready.extend(waiting);
                }
                // A counter may have gone up after this program looked at it.
                if stale {
                    state.ready.push(program);
                } else {
                    state.at_counter.push(program);
                }
                return self.limit(launch, &state);
            }
        }
        let waiting = std::mem::take(&mut state.at_counter);
        state.ready.extend(waiting);
        if state.at_barrier.len() as u64 == self.programs {
            let all = std::mem::take(&mut state.at_barrier);
            state.ready.extend(all);
        }
        self.limit(launch, &state);
    }

    /// The grid must not decide how much memory waiting programs take.
    fn limit(&self, launch: &Launch<'_>, state: &State) {
        if state.at_barrier.len() + state.at_counter.len() > MAX_WAITING {
            launch.fail(0, Failure::TooManyWaiting);
        }
    }
}

/// Why nobody can go on: what the first program that waits for a counter waits for, else the first at
/// a barrier.
fn deadlock(launch: &Launch<'_>, state: &State, programs: u64) -> Failure {
    let form = launch.form();
    let first = |waiting: &'_ [Program]| waiting.iter().map(|p| p.number).min();
    let found = |waiting: &'_ [Program], number: Option<u64>| {
        let program = waiting.iter().find(|p| Some(p.number) == number)?;
        Some(([0, 1, 2].map(|axis| program.regs[axis]), program.next))
    };
    let at_counter = found(&state.at_counter, first(&state.at_counter));
    let ([x, y, z], next) = at_counter
        .or_else(|| found(&state.at_barrier, first(&state.at_barrier)))
        .unwrap_or(([0; 3], 0));
    // A wait is done again, a barrier is not.
    let instr = form.code.get(if at_counter.is_some() { next } else { next.wrapping_sub(1) });
    let waiting = state.at_counter.iter().find(|p| p.next == next);
    let (message, span, hint) = match (instr, waiting) {
        (Some(Instr::Counter { view, index, n, name, span, .. }), Some(program)) => {
            let (at, wanted) = (program.regs[*index as usize], program.regs[*n as usize] as u32);
            let place = program.views[*view as usize].place(DType::U32, &[at as i64]);
            // SAFETY: a counter within its tensor; every program has stopped.
            let count = place.map_or(0, |p| unsafe { p.cast::<u32>().read() });
            (
                format!(
                    "waits for counter {at} of `{name}` to reach {wanted}, but it stays at {count}"
                ),
                *span,
                "every wait needs as many adds by other programs",
            )
        }
        (instr, _) => (
            format!(
                "waits at a grid barrier that {} of {programs} programs never reach",
                state.ended
            ),
            if let Some(Instr::Barrier { span }) = instr { *span } else { None },
            "every program of the grid passes every barrier: move it out of branches and loops that \
             programs leave at different times",
        ),
    };
    let error = Diagnostic::error(format!("deadlock: program ({x}, {y}, {z}) {message}"))
        .at(span)
        .in_kernel(&form.name)
        .hint(hint);
    Failure::Deadlock(Box::new(error))
}

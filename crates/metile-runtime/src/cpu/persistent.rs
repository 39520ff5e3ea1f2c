//! Programs that wait for each other: put aside and resumed.

use super::launch::Launch;
use super::machine::{Machine, Pause, Program, Worker};
use metile_ir::Diagnostic;
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
    at_barrier: Vec<(Program, Pause)>,
    at_counter: Vec<(Program, Pause)>,
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
                    if fresh {
                        machine.begin();
                        machine.start(number);
                    }
                    let (ran, moved) = (machine.run(), machine.moved);
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
            Ok(pause @ Pause::Barrier(_)) => state.at_barrier.push((program, pause)),
            Ok(pause @ Pause::Counter(_)) => {
                // Counters that others wait for change only if something was done.
                if moved {
                    let waiting = std::mem::take(&mut state.at_counter);
                    state.ready.extend(waiting.into_iter().map(|(p, _)| p));
                }
                // A counter may have gone up after this program looked at it.
                if stale {
                    state.ready.push(program);
                } else {
                    state.at_counter.push((program, pause));
                }
                return self.limit(launch, &state);
            }
        }
        let waiting = std::mem::take(&mut state.at_counter);
        state.ready.extend(waiting.into_iter().map(|(p, _)| p));
        if state.at_barrier.len() as u64 == self.programs {
            let all = std::mem::take(&mut state.at_barrier);
            state.ready.extend(all.into_iter().map(|(p, _)| p));
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

/// Why nobody can go on.
fn deadlock(launch: &Launch<'_>, state: &State, programs: u64) -> Failure {
    let first = state.at_counter.iter().chain(&state.at_barrier).min_by_key(|(p, _)| p.number);
    let id = first.map_or([0; 3], |(p, _)| [0, 1, 2].map(|axis| p.regs[axis]));
    let (message, hint) = if state.at_counter.is_empty() {
        (
            format!("a grid barrier that {} of {programs} programs never reach", state.ended),
            "every program of the grid passes every barrier: move it out of branches and loops that \
             programs leave at different times",
        )
    } else {
        (
            "a counter that nobody adds to any more".to_owned(),
            "every wait needs as many adds by other programs",
        )
    };
    let [x, y, z] = id;
    let error = Diagnostic::error(format!("deadlock: program ({x}, {y}, {z}) waits at {message}"))
        .in_kernel(&launch.form().name)
        .hint(hint);
    Failure::Deadlock(Box::new(error))
}

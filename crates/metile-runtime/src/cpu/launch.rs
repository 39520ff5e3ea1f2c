//! A grid of programs on the pool.

use super::machine::{Machine, Program, Worker};
use super::persistent::Together;
use super::pool::{Pool, wait_until};
use super::route::{Route, routes};
use super::settled::{Settled, settled};
use super::view::View;
use metile_compiler::cpu::{Form, Parameter};
use metile_ir::interp::{self, Argument, Failure, MAX_PRINTED};
use metile_ir::tile::{Access, Kernel};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A form with its arguments and grid.
#[derive(Debug)]
pub(crate) struct Bound {
    pub form: Arc<Form>,
    /// Registers, views and lists as every program begins with them.
    pub(super) regs: Vec<u64>,
    pub(super) views: Vec<View>,
    pub(super) lists: Vec<Vec<View>>,
    /// Where the operands of all passes lie.
    pub(super) routes: Vec<Route>,
    /// Passes that have nothing else to find out, by the number of their first operand.
    pub(super) settled: Vec<Option<Settled>>,
    pub(super) grid: [u64; 3],
    programs: u64,
    /// Whether an assertion about the arguments alone fails, as every launch then does.
    pub(super) refused: bool,
}

impl Bound {
    /// Binds arguments that were checked against buffers which begin at `firsts`.
    ///
    /// # Errors
    /// If the grid is too large, or counters are not aligned.
    pub fn new(
        kernel: &Kernel,
        form: Arc<Form>,
        grid: [u64; 3],
        arguments: &[Argument],
        firsts: &[*mut u8],
    ) -> Result<Bound, Failure> {
        let programs = interp::programs(grid)?;
        let mut regs = vec![0; form.regs as usize];
        regs[3..6].copy_from_slice(&grid);
        for &(reg, bits) in &form.constants {
            regs[reg as usize] = bits;
        }
        let mut views = vec![View::none(); form.views.len()];
        let mut lists = vec![Vec::new(); form.lists.len()];
        for (n, (parameter, argument)) in form.parameters.iter().zip(arguments).enumerate() {
            match (parameter, argument) {
                (Parameter::Reg(reg), Argument::Scalar(s)) => regs[*reg as usize] = s.bits(),
                (Parameter::View(view), Argument::Tensor(t)) => {
                    let ty = form.views[*view as usize];
                    let bound = View::bind(ty, t, firsts);
                    if ty.access == Access::Counter && !bound.parts[0].cast::<u32>().is_aligned() {
                        return Err(Failure::Argument {
                            name: kernel.parameter_name(n),
                            message: "is not aligned to the 4 bytes of a counter".to_owned(),
                        });
                    }
                    views[*view as usize] = bound;
                }
                (Parameter::List(list), Argument::List(items)) => {
                    let ty = form.lists[*list as usize];
                    lists[*list as usize] =
                        items.iter().map(|t| View::bind(ty, t, firsts)).collect();
                }
                // The arguments were checked.
                _ => {}
            }
        }
        let mut bound = Bound {
            form,
            regs,
            views,
            lists,
            routes: Vec::new(),
            settled: Vec::new(),
            grid,
            programs,
            refused: false,
        };
        bound.settle();
        Ok(bound)
    }

    /// Does what is done once for all launches.
    fn settle(&mut self) {
        let mut program = Program::default();
        let form = self.form.clone();
        let refused = {
            let launch = Launch::new(self, 1);
            let begin = |worker: &mut Worker| {
                let mut machine = Machine::new(&launch, worker, &mut program);
                machine.copy_bound();
                machine.once(&form.binding)
            };
            WORKER.with_borrow_mut(begin).is_err()
        };
        self.refused = refused;
        self.regs = program.regs;
        self.views = program.views;
        self.routes = routes(&form, &self.views, self.grid);
        self.settled = settled(&form, &self.routes);
    }
}

/// A launch under way.
pub(super) struct Launch<'l> {
    pub bound: &'l Bound,
    /// Counts the launches of this process, from 1 on.
    pub number: u64,
    shares: Box<[Share]>,
    /// Programs that a worker takes at once.
    batch: u64,
    failed_at: AtomicU64,
    failure: Mutex<Option<Failure>>,
    printed: Mutex<Vec<(u64, String)>>,
    together: Option<Together>,
}

/// A thread's own part of the grid. Launch after launch a thread begins with the same programs, whose
/// operands its caches may still have; when it is done it helps others.
#[repr(align(64))]
struct Share {
    /// The next program that nobody has begun.
    next: AtomicU64,
    end: u64,
}

/// The parts of a grid, one for each thread.
fn shares(programs: u64, threads: usize) -> Box<[Share]> {
    let threads = threads as u64;
    let (each, rest) = (programs / threads, programs % threads);
    let start = |n: u64| each * n + rest.min(n);
    (0..threads).map(|n| Share { next: AtomicU64::new(start(n)), end: start(n + 1) }).collect()
}

thread_local! {
    static WORKER: RefCell<Worker> = RefCell::new(Worker::new());
}

impl<'l> Launch<'l> {
    fn new(bound: &'l Bound, threads: usize) -> Launch<'l> {
        let together = bound.form.persistent.then(|| Together::new(bound.programs));
        static LAUNCHES: AtomicU64 = AtomicU64::new(1);
        Launch {
            bound,
            number: LAUNCHES.fetch_add(1, Ordering::Relaxed),
            shares: shares(bound.programs, threads),
            batch: (bound.programs / (threads as u64 * 16)).clamp(1, 64),
            failed_at: AtomicU64::new(u64::MAX),
            failure: Mutex::new(None),
            printed: Mutex::new(Vec::new()),
            together,
        }
    }

    pub fn form(&self) -> &'l Form {
        &self.bound.form
    }

    /// Keeps what a program prints.
    pub fn print(&self, program: u64, line: String) {
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        if printed.len() < MAX_PRINTED {
            printed.push((program, line));
        } else if printed.len() == MAX_PRINTED {
            printed.push((u64::MAX, "…".to_owned()));
        }
    }

    /// Keeps the failure of the first program in the grid's order, whoever comes first here.
    pub fn fail(&self, program: u64, failure: Failure) {
        let mut kept = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() || program < self.failed_at.load(Ordering::Relaxed) {
            *kept = Some(failure);
            self.failed_at.store(program, Ordering::Relaxed);
        }
    }
    pub fn has_failed(&self) -> bool {
        self.failed_at.load(Ordering::Relaxed) != u64::MAX
    }

    /// What thread `n` does.
    fn share(&self, n: usize, worker: &mut Worker) {
        if let Some(together) = &self.together {
            together.share(self, worker);
        } else {
            self.one_by_one(n, worker);
        }
        metile_simd::elementwise::fence();
    }

    fn one_by_one(&self, n: usize, worker: &mut Worker) {
        let mut program = std::mem::take(&mut worker.program);
        let mut begun = false;
        let (before, own) = self.shares.split_at(n.min(self.shares.len()));
        'all: for share in own.iter().chain(before) {
            loop {
                let start = share.next.fetch_add(self.batch, Ordering::Relaxed);
                if start >= share.end {
                    break;
                }
                let mut machine = Machine::new(self, worker, &mut program);
                if !begun {
                    if let Err(failure) = machine.begin() {
                        self.fail(0, failure);
                        break 'all;
                    }
                    begun = true;
                }
                self.programs(&mut machine, start..(start + self.batch).min(share.end));
            }
        }
        worker.program = program;
    }

    fn programs(&self, machine: &mut Machine<'_>, numbers: std::ops::Range<u64>) {
        for number in numbers {
            // Programs before the first failure still run: they might be the first.
            if number > self.failed_at.load(Ordering::Relaxed) {
                break;
            }
            machine.start(number);
            // A program that is not persistent never waits.
            if let Err(failure) = machine.run() {
                self.fail(number, failure);
            }
        }
    }

    fn outcome(self) -> Result<interp::Outcome, Failure> {
        if let Some(failure) = self.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(failure);
        }
        let mut printed = self.printed.into_inner().unwrap_or_else(PoisonError::into_inner);
        printed.sort_by_key(|&(program, _)| program);
        let printed = printed.into_iter().map(|(_, line)| line).collect();
        Ok(interp::Outcome { printed, ..interp::Outcome::default() })
    }
}

/// Runs one launch. The caller holds all memory that it touches.
///
/// # Errors
/// That of the first program in the grid's order which fails.
pub(crate) fn run(bound: &Bound, pool: &Pool) -> Result<interp::Outcome, Failure> {
    if bound.programs == 0 {
        return Ok(interp::Outcome::default());
    }
    let launch = Launch::new(bound, pool.threads());
    if bound.programs == 1 {
        WORKER.with_borrow_mut(|worker| launch.share(0, worker));
    } else {
        pool.run(&|n| WORKER.with_borrow_mut(|worker| launch.share(n, worker)));
    }
    launch.outcome()
}

/// Runs launches in order, each on all threads, which wait for each other before each of those that
/// `groups` names: launches in between have nothing to do with each other. With `ended`, which gets the moment
/// at which each launch did, they wait after every one.
///
/// # Errors
/// The number of the first launch that fails, and its failure; later groups do not run.
pub(crate) fn run_all(
    list: &[&Bound],
    groups: &[usize],
    pool: &Pool,
    ended: Option<&mut Vec<Instant>>,
) -> Result<(), (usize, Failure)> {
    let threads = pool.threads();
    let launches: Vec<Launch<'_>> = list.iter().map(|bound| Launch::new(bound, threads)).collect();
    let arrived = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let ended = ended.map(Mutex::new);
    let starts_group: Vec<bool> = {
        let mut starts = vec![ended.is_some(); launches.len() + 1];
        groups.iter().for_each(|&n| starts[n] = true);
        starts[launches.len()] = true;
        starts
    };
    pool.run(&|thread| {
        WORKER.with_borrow_mut(|worker| {
            let mut waits = 0;
            for (n, launch) in launches.iter().enumerate() {
                if launch.bound.programs > 0 {
                    launch.share(thread, worker);
                }
                if launch.has_failed() {
                    failed.store(true, Ordering::Release);
                }
                if !starts_group[n + 1] {
                    continue;
                }
                waits += 1;
                arrived.fetch_add(1, Ordering::AcqRel);
                wait_until(|| arrived.load(Ordering::Acquire) >= threads * waits);
                if let (0, Some(ended)) = (thread, &ended) {
                    ended.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
                }
                // Set before the thread that saw it arrived, so that all see it here or none.
                if failed.load(Ordering::Acquire) {
                    break;
                }
            }
        });
    });
    for (n, launch) in launches.into_iter().enumerate() {
        launch.outcome().map_err(|failure| (n, failure))?;
    }
    Ok(())
}

impl Program {
    /// A program of its own, for launches whose programs wait for each other.
    pub(super) fn new(number: u64) -> Program {
        Program { number, ..Program::default() }
    }
}

//! Which processors the pool's threads run on.

/// The processors that a process may use, as they were when the pool started.
#[derive(Clone, Debug)]
pub(super) struct Processors {
    allowed: Vec<usize>,
}

impl Processors {
    /// Those that there are, if each of `threads` threads can have one of its own. On systems that
    /// can't be told where to run a thread: none.
    pub fn for_threads(threads: usize) -> Option<Processors> {
        let processors = Processors { allowed: allowed() };
        (processors.allowed.len() >= threads).then_some(processors)
    }

    /// Keeps the calling thread on the `n`-th processor. Where the system says no, it runs wherever it
    /// is put.
    pub fn pin(&self, n: usize) {
        if let Some(&processor) = self.allowed.get(n)
            && !stay_on(&[processor])
        {
            tracing::debug!(target: "metile", "a thread of the pool could not be pinned");
        }
    }

    /// Moves the calling thread to processor 0 if it is on that of one of the `threads` threads after the first:
    /// the two would take turns until the system notices that another processor is idle, which
    /// takes it longer than a launch does.
    pub fn step_aside(&self, threads: usize) {
        let Some(now) = current() else { return };
        if self.allowed[1..threads].contains(&now) {
            let before = allowed();
            // Once there it may go wherever it could before.
            if before.contains(&self.allowed[0]) && stay_on(&self.allowed[..1]) {
                stay_on(&before);
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn allowed() -> Vec<usize> {
    // SAFETY: a system call on a zeroed set of the right size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return Vec::new();
        }
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    }
}

/// Restricts the calling thread to some processors; false if the system refuses.
#[cfg(target_os = "linux")]
fn stay_on(processors: &[usize]) -> bool {
    // SAFETY: a system call on a set of the right size, with processors that are in its range.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        processors.iter().for_each(|&processor| libc::CPU_SET(processor, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
    }
}

/// The processor that the calling thread is on.
#[cfg(target_os = "linux")]
fn current() -> Option<usize> {
    // SAFETY: a system call without arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> Vec<usize> {
    Vec::new()
}
#[cfg(not(target_os = "linux"))]
fn stay_on(_: &[usize]) -> bool {
    false
}
#[cfg(not(target_os = "linux"))]
fn current() -> Option<usize> {
    None
}

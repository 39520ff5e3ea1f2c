//! Launches recorded once and replayed as often as one likes.

use crate::cpu;
use crate::cuda;
use crate::device::{Device, Kind};
use crate::error::Error;
use crate::prepared::{Dispatch, hold_all};
use metile_lang::kernel::KernelCall;
use metile_lang::tensor::Storage;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A sequence of launches over fixed buffers. Each sees what those before it wrote. What changes from
/// replay to replay (a position, a length) is read by the kernels from a device buffer.
#[derive(Debug)]
pub struct CommandList {
    device: Device,
    dispatches: Vec<Dispatch>,
    /// Every storage that a launch touches, once, and whether one writes it.
    storages: Vec<(Arc<dyn Storage>, bool)>,
    /// Where each group of launches begins that touch nothing that another of them writes: these need
    /// not wait for each other.
    groups: Vec<usize>,
    /// On a GPU: all launches as one graph, and the same with the times noted.
    graph: OnceLock<cuda::Graph>,
    timed_graph: OnceLock<cuda::Graph>,
}

impl CommandList {
    /// An empty list for `device`.
    pub fn new(device: &Device) -> CommandList {
        CommandList {
            device: device.clone(),
            dispatches: Vec::new(),
            storages: Vec::new(),
            groups: Vec::new(),
            graph: OnceLock::new(),
            timed_graph: OnceLock::new(),
        }
    }

    /// Compiles, binds and checks `call`, and adds it to the end. The list keeps the memory of its
    /// arguments alive; their borrow ends here, so that the next call may read what this one writes.
    ///
    /// # Errors
    /// If the kernel is refused or its arguments don't fit.
    pub fn record(&mut self, call: KernelCall<'_>) -> Result<(), Error> {
        let dispatch = Dispatch::new(&self.device, &call)?;
        // Graphs are of what was there when they were made.
        (self.graph, self.timed_graph) = (OnceLock::new(), OnceLock::new());
        for (storage, written) in dispatch.storages() {
            match self.storages.iter_mut().find(|(known, _)| Arc::ptr_eq(known, storage)) {
                Some((_, known)) => *known |= written,
                None => self.storages.push((storage.clone(), *written)),
            }
        }
        let group = self.groups.last().map_or(&[][..], |&first| &self.dispatches[first..]);
        if group.is_empty() || group.iter().any(|earlier| waits_for(&dispatch, earlier)) {
            self.groups.push(self.dispatches.len());
        }
        self.dispatches.push(dispatch);
        Ok(())
    }

    /// Runs all launches in order and waits for the last.
    ///
    /// # Errors
    /// That of the first launch which fails. Those after it do not run, except for some that have
    /// nothing to do with it; on a GPU all of them do.
    pub fn replay(&self) -> Result<(), Error> {
        match self.device.kind() {
            Kind::Cpu => self.replay_on_cpu(None),
            Kind::Cuda(gpu) => self.replay_on_cuda(gpu, false).map(|_| ()),
            #[cfg(any(target_vendor = "apple", metile_check_metal))]
            Kind::Metal(_) => self.replay_on_metal(false).map(|_| ()),
            Kind::Interpreter(_) | Kind::MslOnCpu(_) | Kind::Simulator(_) => {
                self.dispatches.iter().try_for_each(|dispatch| dispatch.launch().map(|_| ()))
            }
        }
    }

    /// As [`replay`](Self::replay), with the time from the first launch's begin to the last one's end: by the device's
    /// own clock, if it has one.
    ///
    /// # Errors
    /// As there.
    pub fn replay_for_time(&self) -> Result<Duration, Error> {
        if let Kind::Cuda(gpu) = self.device.kind() {
            return self.replay_on_cuda(gpu, false).map(|(time, _)| time);
        }
        #[cfg(any(target_vendor = "apple", metile_check_metal))]
        if let Kind::Metal(_) = self.device.kind() {
            return self.replay_on_metal(false).map(|times| times.iter().sum());
        }
        let before = Instant::now();
        self.replay().map(|()| before.elapsed())
    }

    /// As [`replay`](Self::replay), with the kernel of each launch and the time from the end of the one
    /// before to its own: by the device's own clock, if it has one.
    ///
    /// # Errors
    /// As there.
    pub fn replay_timed(&self) -> Result<Vec<(&str, Duration)>, Error> {
        if let Kind::Cuda(gpu) = self.device.kind() {
            let (_, times) = self.replay_on_cuda(gpu, true)?;
            return Ok(self.dispatches.iter().map(Dispatch::label).zip(times).collect());
        }
        #[cfg(any(target_vendor = "apple", metile_check_metal))]
        if let Kind::Metal(_) = self.device.kind() {
            let times = self.replay_on_metal(true)?;
            return Ok(self.dispatches.iter().map(Dispatch::label).zip(times).collect());
        }
        let mut before = Instant::now();
        let mut ended = Vec::with_capacity(self.dispatches.len());
        if let Kind::Cpu = self.device.kind() {
            self.replay_on_cpu(Some(&mut ended))?;
        } else {
            for dispatch in &self.dispatches {
                dispatch.launch()?;
                ended.push(Instant::now());
            }
        }
        let mut times = Vec::with_capacity(ended.len());
        for (dispatch, end) in self.dispatches.iter().zip(ended) {
            times.push((dispatch.label(), end.duration_since(before)));
            before = end;
        }
        Ok(times)
    }

    /// One job of the pool, whose threads wait for each other between launches.
    fn replay_on_cpu(&self, ended: Option<&mut Vec<Instant>>) -> Result<(), Error> {
        let internal = |message| Error::Internal { kernel: "command list".to_owned(), message };
        let _held = hold_all(&self.storages).map_err(internal)?;
        let bound: Vec<&cpu::Bound> = self.dispatches.iter().filter_map(Dispatch::on_cpu).collect();
        let pool = cpu::pool().map_err(Error::Threads)?;
        cpu::run_all(&bound, &self.groups, pool, ended)
            .map_err(|(n, failure)| self.dispatches[n].failed(failure))
    }

    /// One command buffer; or, with `apart`, one for each launch, and the time of each.
    #[cfg(any(target_vendor = "apple", metile_check_metal))]
    fn replay_on_metal(&self, apart: bool) -> Result<Vec<Duration>, Error> {
        let internal = |message| Error::Internal { kernel: "command list".to_owned(), message };
        let _held = crate::prepared::metal_held(&self.storages).map_err(internal)?;
        let launches: Vec<_> = self.dispatches.iter().filter_map(Dispatch::on_metal).collect();
        crate::metal::run_all(&launches, apart)
            .map_err(|(n, error)| self.dispatches[n].failed_on_metal(error))
    }

    /// One graph, made by the first replay. The time of the whole, and of each launch if that is asked for.
    fn replay_on_cuda(
        &self,
        gpu: &Arc<cuda::Gpu>,
        timed: bool,
    ) -> Result<(Duration, Vec<Duration>), Error> {
        let launches: Vec<&cuda::Bound> =
            self.dispatches.iter().filter_map(Dispatch::on_cuda).collect();
        if launches.is_empty() {
            return Ok((Duration::ZERO, Vec::new()));
        }
        let kept = if timed { &self.timed_graph } else { &self.graph };
        let graph = match kept.get() {
            Some(graph) => graph,
            None => {
                let made = cuda::Graph::new(gpu, &launches, timed)?;
                kept.get_or_init(|| made)
            }
        };
        let time = graph.run()?;
        cuda::outcomes(&launches).map_err(|(n, error)| self.dispatches[n].failed_on_cuda(error))?;
        Ok((time, graph.times()?))
    }

    /// The kernel of each launch, with its generic arguments.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.dispatches.iter().map(Dispatch::label)
    }

    /// The program of each launch in its text form, and what the device makes of it, as text.
    pub fn programs(&self) -> Vec<(String, String)> {
        self.dispatches.iter().map(Dispatch::program).collect()
    }

    /// Number of launches.
    pub fn len(&self) -> usize {
        self.dispatches.len()
    }
    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.dispatches.is_empty()
    }
}

/// Whether a launch touches what another writes, or writes what it touches.
fn waits_for(later: &Dispatch, earlier: &Dispatch) -> bool {
    later.storages().iter().any(|(storage, written)| {
        let meets = |(other, also): &(Arc<dyn Storage>, bool)| {
            Arc::ptr_eq(storage, other) && (*written || *also)
        };
        earlier.storages().iter().any(meets)
    })
}

//! Launches recorded once and replayed as often as one likes.

use crate::cpu;
use crate::device::{Device, Kind};
use crate::error::Error;
use crate::prepared::{Dispatch, hold_all};
use metile_lang::kernel::KernelCall;
use metile_lang::tensor::Storage;
use std::sync::Arc;
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
}

impl CommandList {
    /// An empty list for `device`.
    pub fn new(device: &Device) -> CommandList {
        CommandList {
            device: device.clone(),
            dispatches: Vec::new(),
            storages: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Compiles, binds and checks `call`, and adds it to the end. The list keeps the memory of its
    /// arguments alive; their borrow ends here, so that the next call may read what this one writes.
    ///
    /// # Errors
    /// If the kernel is refused or its arguments don't fit.
    pub fn record(&mut self, call: KernelCall<'_>) -> Result<(), Error> {
        let dispatch = Dispatch::new(&self.device, &call)?;
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
    /// nothing to do with it.
    pub fn replay(&self) -> Result<(), Error> {
        if let Kind::Cpu = self.device.kind() {
            return self.replay_on_cpu(None);
        }
        for dispatch in &self.dispatches {
            dispatch.launch()?;
        }
        Ok(())
    }

    /// As [`replay`](Self::replay), with the kernel of each launch and the time from the end of the one
    /// before to its own.
    ///
    /// # Errors
    /// As there.
    pub fn replay_timed(&self) -> Result<Vec<(&str, Duration)>, Error> {
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
        let bound: Vec<&cpu::Bound> = self.dispatches.iter().filter_map(Dispatch::bound).collect();
        let pool = cpu::pool().map_err(Error::Threads)?;
        cpu::run_all(&bound, &self.groups, pool, ended)
            .map_err(|(n, failure)| self.dispatches[n].failed(failure))
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

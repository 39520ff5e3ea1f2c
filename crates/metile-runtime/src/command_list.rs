//! Launches recorded once and replayed as often as one likes.

use crate::device::Device;
use crate::error::Error;
use crate::prepared::Dispatch;
use metile_lang::kernel::KernelCall;

/// A sequence of launches over fixed buffers. Each sees what those before it wrote. What changes from
/// replay to replay (a position, a length) is read by the kernels from a device buffer.
#[derive(Debug)]
pub struct CommandList {
    device: Device,
    dispatches: Vec<Dispatch>,
}

impl CommandList {
    /// An empty list for `device`.
    pub fn new(device: &Device) -> CommandList {
        CommandList { device: device.clone(), dispatches: Vec::new() }
    }

    /// Compiles, binds and checks `call`, and adds it to the end. The list keeps the memory of its
    /// arguments alive; their borrow ends here, so that the next call may read what this one writes.
    ///
    /// # Errors
    /// If the kernel is refused or its arguments don't fit.
    pub fn record(&mut self, call: KernelCall<'_>) -> Result<(), Error> {
        self.dispatches.push(Dispatch::new(&self.device, &call)?);
        Ok(())
    }

    /// Runs all launches in order and waits for the last.
    ///
    /// # Errors
    /// That of the first launch which fails; those after it do not run.
    pub fn replay(&self) -> Result<(), Error> {
        for dispatch in &self.dispatches {
            dispatch.launch()?;
        }
        Ok(())
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

//! Moments on the device's own clock.

use super::driver::check;
use super::error::CudaError;
use super::gpu::Gpu;
use cudarc::driver::sys::{self, CUevent};
use std::time::Duration;

/// A moment that the device notes when it gets there.
#[derive(Debug)]
pub(super) struct Moment {
    event: CUevent,
}

// SAFETY: events may be used by any thread.
unsafe impl Send for Moment {}
// SAFETY: as above.
unsafe impl Sync for Moment {}

impl Moment {
    /// A moment to be noted. The GPU was entered.
    pub fn new() -> Result<Moment, CudaError> {
        let mut event = std::ptr::null_mut();
        // SAFETY: the context is current.
        check(unsafe { sys::cuEventCreate(&mut event, 0) }, "make an event")?;
        Ok(Moment { event })
    }

    /// Notes it after all that is in the stream.
    pub fn record(&self, gpu: &Gpu) -> Result<(), CudaError> {
        // SAFETY: event and stream are of one context.
        check(unsafe { sys::cuEventRecord(self.event, gpu.stream()) }, "note the time")
    }

    /// As [`record`](Self::record), for a graph that the stream is being captured to: each launch of the graph notes it anew.
    pub fn record_in_graph(&self, gpu: &Gpu) -> Result<(), CudaError> {
        let flag = sys::CUevent_record_flags_enum::CU_EVENT_RECORD_EXTERNAL as u32;
        // SAFETY: as above.
        let got = unsafe { sys::cuEventRecordWithFlags(self.event, gpu.stream(), flag) };
        check(got, "note the time")
    }

    /// The time from this moment to a later one. Both have passed.
    pub fn until(&self, later: &Moment) -> Result<Duration, CudaError> {
        let mut milliseconds = 0.0f32;
        // SAFETY: two events of one context.
        let got = unsafe { sys::cuEventElapsedTime_v2(&mut milliseconds, self.event, later.event) };
        check(got, "tell the time")?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::cuEventDestroy_v2(self.event) };
    }
}

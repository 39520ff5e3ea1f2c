//! Launches as one graph, which the device goes through without the host.

use super::driver::check;
use super::error::CudaError;
use super::gpu::Gpu;
use super::launch::{Bound, RunError};
use super::time::Moment;
use cudarc::driver::sys::{self, CUgraph, CUgraphExec};
use std::sync::Arc;
use std::time::Duration;

/// A graph of launches in order. The launches live as long as it is used.
#[derive(Debug)]
pub(crate) struct Graph {
    gpu: Arc<Gpu>,
    graph: CUgraph,
    ready: CUgraphExec,
    /// The beginning and the end of every launch's turn, if they are noted.
    moments: Vec<Moment>,
}

// SAFETY: graphs may be used by any thread; launches of one are ordered by the stream.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

impl Graph {
    /// A graph of `launches`, with the time noted between them if `timed`.
    ///
    /// # Errors
    /// If the driver refuses it.
    pub fn new(gpu: &Arc<Gpu>, launches: &[&Bound], timed: bool) -> Result<Graph, CudaError> {
        gpu.enter()?;
        let mut moments = Vec::new();
        if timed {
            for _ in 0..=launches.len() {
                moments.push(Moment::new()?);
            }
        }
        let _order = gpu.enqueueing();
        let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is nobody else's while the order is held.
        check(unsafe { sys::cuStreamBeginCapture_v2(gpu.stream(), mode) }, "begin a graph")?;
        let captured: Result<(), CudaError> = (|| {
            if let Some(first) = moments.first() {
                first.record_in_graph(gpu)?;
            }
            for (n, launch) in launches.iter().enumerate() {
                launch.enqueue()?;
                if let Some(after) = moments.get(n + 1) {
                    after.record_in_graph(gpu)?;
                }
            }
            Ok(())
        })();
        let mut graph = std::ptr::null_mut();
        // Ends the capture whatever became of it.
        // SAFETY: the capture was begun.
        let ended = unsafe { sys::cuStreamEndCapture(gpu.stream(), &mut graph) };
        captured?;
        check(ended, "end a graph")?;
        let mut ready = std::ptr::null_mut();
        // SAFETY: the graph was captured.
        let got = unsafe { sys::cuGraphInstantiateWithFlags(&mut ready, graph, 0) };
        let graph = Graph { gpu: gpu.clone(), graph, ready, moments };
        check(got, "make a graph ready")?;
        Ok(graph)
    }

    /// Goes through the launches and waits; the time on the device.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn run(&self) -> Result<Duration, CudaError> {
        self.gpu.enter()?;
        let (before, after) = (Moment::new()?, Moment::new()?);
        {
            let _order = self.gpu.enqueueing();
            before.record(&self.gpu)?;
            // SAFETY: the graph is ready, and what its launches use lives as long as the command list.
            check(unsafe { sys::cuGraphLaunch(self.ready, self.gpu.stream()) }, "launch a graph")?;
            after.record(&self.gpu)?;
        }
        self.gpu.wait()?;
        before.until(&after)
    }

    /// The times of the launches of the last run, each from the end of the one before.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn times(&self) -> Result<Vec<Duration>, CudaError> {
        self.moments.windows(2).map(|pair| pair[0].until(&pair[1])).collect()
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: both were made for this and are destroyed once; the driver waits for a graph that still runs.
        unsafe {
            if !self.ready.is_null() {
                let _ = sys::cuGraphExecDestroy(self.ready);
            }
            let _ = sys::cuGraphDestroy(self.graph);
        }
    }
}

/// The first failure of `launches`, which have ended, by their numbers.
///
/// # Errors
/// That failure.
pub(crate) fn outcomes(launches: &[&Bound]) -> Result<(), (usize, RunError)> {
    let mut first = Ok(());
    // All reports are emptied for the next run.
    for (n, launch) in launches.iter().enumerate() {
        if let Err(failure) = launch.outcome()
            && first.is_ok()
        {
            first = Err((n, RunError::Failure(failure)));
        }
    }
    first
}

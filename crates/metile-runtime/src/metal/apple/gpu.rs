//! The GPU.

use super::super::MetalError;
use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSProcessInfo;
use objc2_metal::{MTLCommandQueue, MTLCreateSystemDefaultDevice, MTLDevice, MTLGPUFamily};
use std::sync::{Arc, Mutex, PoisonError};

// The function that finds the device is there only in programs that link this.
#[cfg(target_vendor = "apple")]
#[link(name = "CoreGraphics", kind = "framework")]
unsafe extern "C" {}

/// An Apple GPU.
#[derive(Debug)]
pub struct Gpu {
    /// What Metal calls it: `Apple M1`.
    pub model: String,
    /// The version of the system, which brings Metal's compiler along.
    pub system: String,
    device: Retained<ProtocolObject<dyn MTLDevice>>,
    queue: Retained<ProtocolObject<dyn MTLCommandQueue>>,
}

impl Gpu {
    /// The system's GPU.
    ///
    /// # Errors
    /// If there is none, or it lacks what kernels need.
    pub fn open() -> Result<Arc<Gpu>, MetalError> {
        static OPEN: Mutex<Option<Arc<Gpu>>> = Mutex::new(None);
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = open.as_ref() {
            return Ok(gpu.clone());
        }
        let device = MTLCreateSystemDefaultDevice().ok_or(MetalError::NoDevice)?;
        let model = device.name().to_string();
        for (family, name) in [(MTLGPUFamily::Apple7, "Apple7"), (MTLGPUFamily::Metal3, "Metal3")] {
            if !device.supportsFamily(family) {
                return Err(MetalError::Family { device: model, family: name });
            }
        }
        let queue = device.newCommandQueue().ok_or(MetalError::None("command queue"))?;
        let system = NSProcessInfo::processInfo().operatingSystemVersionString().to_string();
        let gpu = Arc::new(Gpu { model, system, device, queue });
        *open = Some(gpu.clone());
        Ok(gpu)
    }

    pub(super) fn device(&self) -> &ProtocolObject<dyn MTLDevice> {
        &self.device
    }
    pub(super) fn queue(&self) -> &ProtocolObject<dyn MTLCommandQueue> {
        &self.queue
    }
}

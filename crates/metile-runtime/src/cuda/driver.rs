//! The driver: loaded when it is first asked for, its results as errors.

use super::error::CudaError;
use cudarc::driver::sys::{self, CUresult};
use std::ffi::CStr;
use std::sync::OnceLock;

/// The oldest CUDA version that a driver has to support: functions of it are called.
const NEEDED: i32 = 13_000;

/// `Ok` if the driver did `what`.
pub(super) fn check(result: CUresult, what: &'static str) -> Result<(), CudaError> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let text = |get: unsafe fn(CUresult, *mut *const std::ffi::c_char) -> CUresult| {
        let mut text = std::ptr::null();
        // SAFETY: the driver is loaded, or there would be no result; it gives a static string or none.
        unsafe {
            if get(result, &mut text) != CUresult::CUDA_SUCCESS || text.is_null() {
                return format!("{result:?}");
            }
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    };
    Err(CudaError::Driver {
        what,
        name: text(sys::cuGetErrorName),
        text: text(sys::cuGetErrorString),
    })
}

/// Loads and starts the driver, once.
///
/// # Errors
/// If there is none, it is too old or does not start.
pub(super) fn start() -> Result<(), CudaError> {
    static STARTED: OnceLock<Result<(), CudaError>> = OnceLock::new();
    STARTED
        .get_or_init(|| {
            // SAFETY: only looks for the library.
            if !unsafe { sys::is_culib_present() } {
                return Err(CudaError::NoDriver);
            }
            let mut found = 0;
            // SAFETY: the library is there, and this function is in every version of it.
            check(unsafe { sys::cuDriverGetVersion(&mut found) }, "tell its version")?;
            if found < NEEDED {
                return Err(CudaError::OldDriver { found, needed: NEEDED });
            }
            // SAFETY: as above.
            check(unsafe { sys::cuInit(0) }, "start")
        })
        .clone()
}

/// How many GPUs the driver sees.
///
/// # Errors
/// If there is no driver.
pub fn count() -> Result<usize, CudaError> {
    match start() {
        Err(CudaError::Driver { name, .. }) if name == "CUDA_ERROR_NO_DEVICE" => return Ok(0),
        started => started?,
    }
    let mut count = 0;
    // SAFETY: the driver is started.
    check(unsafe { sys::cuDeviceGetCount(&mut count) }, "count its devices")?;
    Ok(usize::try_from(count).unwrap_or(0))
}

//! MLX's affine layout: `X.weight` (packed integers in `u32`), `X.scales` and `X.biases` are one matrix.

use std::collections::BTreeMap;
use std::path::Path;

use metile_ir::dtype::{Affine, AffineBits, AffineGroup, AffineScale};
use metile_ir::{DType, Format, PackedFormat};

use super::safetensors::Tensor;
use super::{Part, TensorInfo};
use crate::Error;
use crate::config::hugging_face::{AffineSettings, Quantization};

/// Every tensor as a model sees it: three affine arrays as one, others as they are.
pub(super) fn join(
    path: &Path,
    tensors: Vec<(Tensor, Part)>,
    quantization: Option<&Quantization>,
) -> Result<Vec<TensorInfo>, Error> {
    let fail = |tensor: &str, problem: String| Error::Tensor {
        path: path.to_path_buf(),
        tensor: tensor.to_owned(),
        problem,
    };
    let mut rest: BTreeMap<String, (Tensor, Part)> =
        tensors.into_iter().map(|(tensor, part)| (tensor.name.clone(), (tensor, part))).collect();
    let modules: Vec<String> =
        rest.keys().filter_map(|name| name.strip_suffix(".scales")).map(str::to_owned).collect();
    let mut joined = Vec::new();
    for module in modules {
        let mut take = |kind: &str| {
            let name = format!("{module}.{kind}");
            rest.remove(&name).ok_or_else(|| {
                fail(&name, format!("it is missing, though there is `{module}.scales`"))
            })
        };
        let arrays = [take("weight")?, take("scales")?, take("biases")?];
        let name = arrays[0].0.name.clone();
        let Some(quantization) = quantization else {
            let problem = "there are scales for it, but config.json has no `quantization`";
            return Err(fail(&name, problem.to_owned()));
        };
        let own = quantization.modules.iter().find(|(of, _)| *of == module);
        let Some(settings) = own.map_or(Some(quantization.default), |(_, own)| *own) else {
            let problem =
                "there are scales for it, but `quantization` in config.json says that it has none";
            return Err(fail(&name, problem.to_owned()));
        };
        joined.push(matrix(&arrays, settings).map_err(|problem| fail(&name, problem))?);
    }
    joined.extend(rest.into_values().map(|(tensor, part)| TensorInfo {
        name: tensor.name,
        format: Format::Plain(tensor.dtype),
        shape: tensor.shape,
        bytes: tensor.bytes,
        parts: vec![part],
    }));
    Ok(joined)
}

fn matrix(arrays: &[(Tensor, Part); 3], settings: AffineSettings) -> Result<TensorInfo, String> {
    let [(weight, _), (scales, _), (biases, _)] = arrays;
    let bits = match settings.bits {
        4 => AffineBits::B4,
        8 => AffineBits::B8,
        bits => return Err(format!("{bits} bits are not supported")),
    };
    let group = match settings.group {
        32 => AffineGroup::G32,
        64 => AffineGroup::G64,
        128 => AffineGroup::G128,
        group => return Err(format!("groups of {group} are not supported")),
    };
    let scale = match scales.dtype {
        DType::F16 => AffineScale::F16,
        DType::BF16 => AffineScale::BF16,
        DType::F32 => AffineScale::F32,
        other => return Err(format!("its scales are {other}; f16, bf16 and f32 are supported")),
    };
    if biases.dtype != scales.dtype {
        return Err(format!("its scales are {}, its biases {}", scales.dtype, biases.dtype));
    }
    if weight.dtype != DType::U32 {
        return Err(format!("packed integers are u32, not {}", weight.dtype));
    }
    let &[rows, words] = &weight.shape[..] else {
        return Err(format!("a packed matrix has two dimensions, not shape {:?}", weight.shape));
    };
    let per_word = 32 / bits.get();
    let columns = words.checked_mul(per_word).filter(|columns| columns.is_multiple_of(group.get()));
    let Some(columns) = columns else {
        return Err(format!(
            "rows of {words} words of {per_word} are not whole groups of {}",
            group.get()
        ));
    };
    let groups = [rows, columns / group.get()];
    for (array, what) in [(scales, "scales"), (biases, "biases")] {
        if array.shape != groups {
            return Err(format!(
                "its {what} have shape {:?}; {} bits in groups of {} need {groups:?}",
                array.shape,
                bits.get(),
                group.get()
            ));
        }
    }
    Ok(TensorInfo {
        name: weight.name.clone(),
        format: Format::Packed(PackedFormat::Affine(Affine { bits, group, scale })),
        shape: vec![rows, columns],
        bytes: arrays.iter().map(|(_, part)| part.bytes).sum(),
        parts: arrays.iter().map(|(_, part)| *part).collect(),
    })
}

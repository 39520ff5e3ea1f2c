//! Building a kernel operation by operation.

use super::{
    Definition, Kernel, Op, OpId, OpKind, Region, RegionId, TileType, Type, Value, ValueData, infer,
};
use crate::diagnostic::Diagnostic;
use crate::span::Span;

/// Appends operations to a kernel, typing their results.
///
/// ```
/// use metile_ir::tile::{Access, Builder, OpKind, Shape, TensorType, TileType, Type, verify};
/// use metile_ir::{DType, Format, Scalar};
///
/// let mut b = Builder::new("fill");
/// let out = b.parameter("out", Type::Tensor(TensorType {
///     format: Format::Plain(DType::F32), rank: 1, access: Access::ReadWrite }));
/// let lanes = TileType::new(DType::I64, Shape::new(&[8])?);
/// let at = b.op(OpKind::Arange, &[], Some(lanes))?;
/// let ones = TileType::new(DType::F32, Shape::new(&[8])?);
/// let one = b.op(OpKind::Constant(Scalar::f32(1.0)), &[], Some(ones))?;
/// b.effect(OpKind::Store { masked: false }, &[out, at, one])?;
/// b.effect(OpKind::Return, &[])?;
/// let verified = verify::verify(b.finish()).map_err(|e| e[0].to_string())?;
/// assert!(verified.kernel().to_string().contains("store %out[%0], %1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    kernel: Kernel,
    region: RegionId,
    span: Option<Span>,
}

impl Builder {
    /// A builder at the start of an empty kernel.
    pub fn new(name: impl Into<String>) -> Builder {
        let kernel = Kernel::new(name);
        Builder { region: kernel.body, kernel, span: None }
    }

    /// The kernel so far.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }
    /// The kernel so far, to change its attributes.
    pub fn kernel_mut(&mut self) -> &mut Kernel {
        &mut self.kernel
    }
    /// The finished kernel.
    pub fn finish(self) -> Kernel {
        self.kernel
    }

    /// Where the next operations were written.
    pub fn set_span(&mut self, span: Option<Span>) {
        self.span = span;
    }
    /// Where the last operations were written.
    pub fn span(&self) -> Option<Span> {
        self.span
    }
    /// The region that operations are appended to.
    pub fn region(&self) -> RegionId {
        self.region
    }
    /// Appends to `region` from here on; returns the region left.
    pub fn enter(&mut self, region: RegionId) -> RegionId {
        std::mem::replace(&mut self.region, region)
    }

    /// Adds a parameter.
    pub fn parameter(&mut self, name: &str, ty: Type) -> Value {
        let n = self.kernel.parameters.len() as u32;
        let value = self.kernel.values.push(ValueData {
            ty,
            definition: Definition::Parameter(n),
            name: Some(name.to_owned()),
        });
        self.kernel.parameters.push(value);
        value
    }

    /// A new empty region, not yet part of an operation.
    pub fn new_region(&mut self) -> RegionId {
        self.kernel.regions.push(Region::default())
    }

    /// Adds an argument to `region`.
    pub fn argument(&mut self, region: RegionId, ty: Type, name: Option<String>) -> Value {
        let n = self.kernel.regions[region].arguments.len() as u32;
        let value = self.kernel.values.push(ValueData {
            ty,
            definition: Definition::Argument(region, n),
            name,
        });
        self.kernel.regions[region].arguments.push(value);
        value
    }

    /// Appends an operation with one result and returns it.
    ///
    /// # Errors
    /// The type rule broken, or that the operation has no result.
    pub fn op(
        &mut self,
        kind: OpKind,
        operands: &[Value],
        result: Option<TileType>,
    ) -> Result<Value, Diagnostic> {
        let types = infer::result_types(&self.kernel, &kind, operands, result)
            .map_err(|e| e.at(self.span))?;
        match types[..] {
            [ty] => {
                let op = self.control(kind, operands, Vec::new(), &[ty]);
                Ok(self.kernel.ops[op].results[0])
            }
            _ => Err(Diagnostic::error(format!("`{}` has no result", infer::op_name(&kind)))
                .at(self.span)),
        }
    }

    /// Appends an operation without results; terminators are not checked here.
    ///
    /// # Errors
    /// The type rule broken.
    pub fn effect(&mut self, kind: OpKind, operands: &[Value]) -> Result<(), Diagnostic> {
        if !kind.is_terminator() {
            infer::result_types(&self.kernel, &kind, operands, None)
                .map_err(|e| e.at(self.span))?;
        }
        self.control(kind, operands, Vec::new(), &[]);
        Ok(())
    }

    /// Appends an operation as given, its types unchecked: for control operations, whose types
    /// follow from their regions, and for parsers; the verifier checks it all.
    pub fn control(
        &mut self,
        kind: OpKind,
        operands: &[Value],
        regions: Vec<RegionId>,
        results: &[Type],
    ) -> OpId {
        let op = self.kernel.ops.push(Op {
            kind,
            operands: operands.to_vec(),
            results: Vec::new(),
            regions,
            span: self.span,
        });
        for (n, &ty) in results.iter().enumerate() {
            let value = self.kernel.values.push(ValueData {
                ty,
                definition: Definition::Result(op, n as u32),
                name: None,
            });
            self.kernel.ops[op].results.push(value);
        }
        let region = self.region;
        self.kernel.regions[region].ops.push(op);
        op
    }
}

/* SPDX-License-Identifier: MIT */
/*
** ridge.h: the whole public C interface, one header per family.
**
** LuaJIT reads the same text: `cc -E -P -DRG_CDEF core/ridge.h` is embedded in the library and
** returned by rg_cdef(), so the declarations always match the binary.  Three rules keep that
** possible: system includes stand under #ifndef RG_CDEF, constants are enumerators, and there are
** no inline functions.
**
** Ownership, six rules that hold everywhere:
**  1. What a _new function or an operation writes to *out is a new reference; the caller releases
**  it. 2. _retain adds one reference, _release drops one; release of NULL does nothing.
**  3. What a getter returns is borrowed: valid while its owner lives, never released.
**  4. A view holds its storage; a plan holds what its steps read and write.
**  5. A tensor knows its device, so the order of finalizers cannot matter.
**  6. Host pointers handed in are copied, unless the function is called _wrap.
**
** Every fallible function returns rg_status: RG_OK or a negative code; the sentence with the facts
** is rg_error_message().  Outputs are written on success only.
*/
#ifndef RIDGE_H
#define RIDGE_H

#include "ridge/base.h"
#include "ridge/budget.h"
#include "ridge/device.h"
#include "ridge/ring.h"
#include "ridge/activity.h"
#include "ridge/tensor.h"
#include "ridge/element.h"
#include "ridge/op.h"
#include "ridge/choice.h"
#include "ridge/schema.h"
#include "ridge/image.h"
#include "ridge/norm.h"
#include "ridge/attention.h"
#include "ridge/loss.h"
#include "ridge/step.h"
#include "ridge/collective.h"
#include "ridge/group.h"
#include "ridge/grad.h"
#include "ridge/graph.h"
#include "ridge/ir.h"
#include "ridge/factor.h"
#include "ridge/compound.h"
#include "ridge/data.h"
#include "ridge/onnx.h"
#include "ridge/safetensors.h"
#include "ridge/measure.h"

#endif

/* SPDX-License-Identifier: MIT */
/*
** Which operations there are and which kernels which device has.  Backends register at start-up.
*/
#include "op/list.h"
#include "op/op.h"

static const rg_backend *backends[RG_DEVICE_COUNT];

/* -- Records -------------------------------------------------------------------- */

#define RG_OP_LINE(NAME, name) extern const rg_op rg_op_##name;
RG_OP_LIST RG_BODY_LIST
#undef RG_OP_LINE

#define RG_OP_LINE(NAME, name) [RG_OP_##NAME] = &rg_op_##name,
    const rg_op *const rg_ops[RG_RECORD_COUNT] = { RG_OP_LIST RG_BODY_LIST };
#undef RG_OP_LINE

int32_t rg_op_count(void)
{
  return RG_OP_COUNT;
}

int32_t rg_record_count(void)
{
  return RG_RECORD_COUNT;
}

static int32_t kind_of(const rg_op *op)
{
  return op->view != NULL     ? RG_RECORD_VIEW
         : op->expand != NULL ? RG_RECORD_COMPOUND
                              : RG_RECORD_KERNEL;
}

rg_status rg_op_facts_of(int32_t index, rg_op_facts *out)
{
  if (index < 0 || index >= RG_RECORD_COUNT || out == NULL) {
    return rg_fail(RG_EARG, "op: there is no operation %d", index);
  }
  const rg_op *op = rg_ops[index];

  int32_t n = 0;

  while (n < RG_MAX_OUT && op->result[n] != NULL) {
    n++;
  }
  *out = (rg_op_facts){ .name = op->name,
                        .doc = op->doc,
                        .input = op->input,
                        .arg = op->arg,
                        .result = op->result,
                        .n_inputs = op->n_inputs,
                        .n_args = op->n_args,
                        .n_results = n - op->n_hidden,
                        .n_hidden = op->n_hidden,
                        .args_bytes = (int32_t)op->args_size,
                        .amp = op->amp,
                        .draws = op->draws,
                        .into = op->into,
                        .method = op->method,
                        .has_grad = op->grad != NULL,
                        .kind = kind_of(op) };
  return RG_OK;
}

/* -- Kernels ---------------------------------------------------------------------- */

void rg_backend_register(int32_t device, const rg_backend *backend)
{
  backends[device] = backend;
}

int32_t rg_op_runs_on(int32_t index, int32_t device)
{
  return index >= 0 && index < RG_OP_COUNT && device >= 0 && device < RG_DEVICE_COUNT &&
         backends[device] != NULL && backends[device]->kernels[index] != NULL;
}

rg_status rg_backend_foresee(const rg_call *call, rg_tensor *const *out)
{
  const rg_backend *backend = backends[call->device];

  return backend != NULL && backend->foresee != NULL ? backend->foresee(call, out) : RG_OK;
}

rg_kernel *rg_backend_kernel(int32_t device, const rg_op *op)
{
  if (op->id < 0) {
    return op->kernel;
  }
  return backends[device] != NULL ? backends[device]->kernels[op->id] : NULL;
}

bool rg_backend_varies(int32_t device, const rg_op *op, const rg_modes *modes)
{
  return modes->device.vendor != 0 && modes->device.deterministic == 0 && op->id >= 0 &&
         backends[device] != NULL && backends[device]->varies != NULL &&
         backends[device]->varies[op->id];
}

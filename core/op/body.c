/* SPDX-License-Identifier: MIT */
/*
** The dispatcher for records whose body is other operations, which go through the dispatcher
** themselves.
*/
#include "op/list.h"
#include "op/op.h"

_Thread_local uint64_t rg_numbers_drawn;

static rg_status check(rg_call *call)
{
  if (rg_interrupt_pending()) {
    return rg_fail(RG_EINTR, "interrupted");
  }
  call->device = RG_CPU;
  call->compute = -1;
  call->weight_cast = -1;
  call->n_out = 1;
  for (int32_t i = call->n_in - 1; i >= 0; i--) {
    const rg_tensor *x = call->in[i];

    if (x != NULL && (x->_flags & RG_TENSOR_ASK) != 0) {
      RG_TRY(rg_tensor_check(x, call->op->name));
    }
    call->device = x != NULL ? x->_device : call->device;
  }
  RG_TRY(rg_check_schema(call));
  return call->op->infer != NULL ? call->op->infer(call) : RG_OK;
}

/* The same while somebody looks on: what runs in it has it as its parent. */
static rg_status expand_observed(const rg_call *call, rg_tensor **result)
{
  rg_place before = rg_place_now;
  const rg_graph_hooks *graph = rg_graph_recorder;
  int64_t begun = rg_ring_begin(RG_EVENT_RANGE, call->device, call->op->name);
  int32_t node = -1;
  rg_status status;

  if (graph != NULL) {
    RG_TRY(graph->begin(call, &node));
  }
  if (begun >= 0) {
    rg_place_now.parent = begun;
  }
  status = call->op->expand(call, result);
  rg_place_now = before;
  if (graph != NULL) {
    rg_status told = graph->end(call, node, status == RG_OK ? result : NULL);

    for (int32_t i = 0; i < call->n_out && status == RG_OK && told != RG_OK; i++) {
      rg_tensor_release(result[i]);
    }
    status = status != RG_OK ? status : told;
  }
  if (begun >= 0 && status == RG_OK) {
    rg_observe_end(begun, call, result, "");
  }
  return status;
}

/* The body; one that failed is run again from its beginning where there was no memory, and draws
** what it would have drawn. */
static rg_status expand(const rg_call *call, rg_tensor **result)
{
  rg_generator *g = rg_generator_default();
  const uint64_t offset = rg_generator_offset(g);
  const uint64_t before = rg_numbers_drawn;
  rg_status status =
      rg_ring_on != 0 ? expand_observed(call, result) : call->op->expand(call, result);

  if (status != RG_OK && rg_numbers_drawn != before &&
      rg_generator_give_back(g, offset, rg_numbers_drawn - before)) {
    rg_numbers_drawn = before;
  }
  return status;
}

rg_status rg_run_compound(rg_call *call, rg_tensor **out)
{
  rg_tensor *result[RG_MAX_OUT] = { NULL };

  if (out == NULL) {
    return rg_fail(RG_EARG, "%s: out is NULL", call->op->name);
  }
  RG_TRY(check(call));
  RG_TRY(expand(call, result));
  for (int32_t i = 0; i < call->n_out; i++) {
    out[i] = result[i];
  }
  return RG_OK;
}

rg_status rg_run_body(const rg_op *op, const rg_tensor *const *in, int32_t n_in, const void *args,
                      rg_tensor **out)
{
  rg_call call; /* is large: the rest is nobody's, and not cleared */

  call.op = op;
  call.in = in;
  call.n_in = n_in;
  call.args = args;
  call.generator = NULL;
  return rg_run_compound(&call, out);
}

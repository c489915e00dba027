/* SPDX-License-Identifier: MIT */
/*
** Clones of plans: the graph that a plan was made of, made a plan again, over the same parameters.
** What is a clone's own: inputs, outputs, buffers, the CUDA graph, and streams of random numbers.
** So several threads can run one net side by side, and what they share is only read; what kernels
** keep of a parameter (packed, in another type) is found and kept under the lock of its storage.
*/
#include <pthread.h>

#include "graph/ir.h"
#include "graph/plan.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* copying puts nodes in order first */

/* What the inputs of one storage of a graph show of it. */
typedef struct range {
  int64_t begin; /* bytes */
  int64_t end;
  bool shared; /* a parameter lies there too */
  rg_tensor *own;
} range;

/* -- What a plan knows of its graph ------------------------------------------------------------ */

rg_status rg_plan_remember(rg_plan *plan, rg_graph *graph, rg_tensor *const *outputs)
{
  const int32_t n = rg_ir_n_outputs(graph);

  plan->outputs = rg_host_zeroed(((size_t)n + 1) * sizeof(rg_tensor *));
  if (plan->outputs == NULL) {
    return rg_fail(RG_ENOMEM, "plan: no memory for its outputs");
  }
  for (int32_t i = 0; i < n; i++) {
    plan->outputs[i] = rg_tensor_retain(outputs[i]);
  }
  return rg_graph_copy(graph, &plan->graph);
}

void rg_plan_forget(rg_plan *plan)
{
  for (int32_t i = 0; plan->outputs != NULL && plan->outputs[i] != NULL; i++) {
    rg_tensor_release(plan->outputs[i]);
  }
  rg_host_free(plan->outputs);
  rg_graph_release(plan->graph);
}

rg_tensor *rg_plan_input(const rg_plan *plan, int32_t i)
{
  const int32_t value = plan != NULL && plan->graph != NULL ? rg_graph_input(plan->graph, i) : -1;

  return value >= 0 ? rg_ir_bound(plan->graph, value) : NULL;
}

rg_tensor *rg_plan_output(const rg_plan *plan, int32_t i)
{
  return plan != NULL && plan->graph != NULL && i >= 0 && i < rg_ir_n_outputs(plan->graph)
             ? plan->outputs[i]
             : NULL;
}

/* -- Inputs ------------------------------------------------------------------------------------ */

/* Bytes of its storage that x shows, from a line on. */
static void find_bytes(const rg_tensor *x, range *r)
{
  int64_t begin = (char *)x->_data - (char *)x->_storage->block.data;
  int64_t end = begin + rg_dtype_bytes(x->_dtype);

  for (int32_t i = 0; i < x->_ndim; i++) {
    end += (x->_shape[i] - 1) * x->_stride[i] * rg_dtype_bytes(x->_dtype);
  }
  end = x->_count > 0 ? end : begin;
  r->begin = r->end == 0 ? begin / 64 * 64 : rg_min_i64(r->begin, begin / 64 * 64);
  r->end = rg_max_i64(r->end, end);
}

static void find_ranges(const rg_graph *g, range *all)
{
  for (int32_t id = 0; id < rg_ir_n_values(g); id++) {
    const rg_ir_value *v = rg_ir_value_at(g, id);

    if (v->kind == RG_VALUE_INPUT && rg_ir_bound(g, id) != NULL) {
      find_bytes(rg_ir_bound(g, id), &all[v->storage]);
    } else if (v->kind == RG_VALUE_PARAMETER) {
      all[v->storage].shared = true;
    }
  }
}

/* These bytes in memory of their own. */
static rg_status copy_bytes(const rg_tensor *x, range *r)
{
  const int64_t n = r->end - r->begin;
  const int64_t one = 1;
  rg_tensor *there;
  rg_status status;

  RG_TRY(rg_tensor_view_of(x->_storage, RG_U8, &n, &one, 1, r->begin, &there));
  status = rg_clone(there, &r->own);
  rg_tensor_release(there);
  return status;
}

/* An input of the clone's own, in the place of that of the plan. */
static rg_status take_input(rg_graph *g, int32_t id, range *r)
{
  const rg_tensor *x = rg_ir_bound(g, id);
  const int64_t begin = (char *)x->_data - (char *)x->_storage->block.data;
  rg_tensor *own;
  rg_status status;

  if (r->own == NULL) {
    RG_TRY(copy_bytes(x, r));
  }
  RG_TRY(rg_tensor_view_of(r->own->_storage, x->_dtype, x->_shape, x->_stride, x->_ndim,
                           begin - r->begin, &own));
  status = rg_ir_bind(g, id, own);
  rg_tensor_release(own);
  return status;
}

/* Is every input there? */
static rg_status check_inputs(const rg_graph *g)
{
  for (int32_t i = 0; i < rg_ir_n_inputs(g); i++) {
    const int32_t value = rg_ir_input_at(g, i);
    const rg_tensor *x = rg_ir_bound(g, value);

    if (x != NULL) {
      RG_TRY(rg_tensor_check(x, rg_ir_text_of(g, rg_ir_value_at(g, value)->name)));
    }
  }
  return RG_OK;
}

static rg_status take_inputs(rg_graph *g)
{
  const int32_t n = rg_ir_n_storages(g);
  range *all = rg_host_zeroed((size_t)n * sizeof(*all));
  rg_status status = all != NULL ? RG_OK : rg_fail(RG_ENOMEM, "plan: no memory for inputs");

  if (status == RG_OK) {
    find_ranges(g, all);
  }
  for (int32_t id = 0; id < rg_ir_n_values(g) && status == RG_OK; id++) {
    const rg_ir_value *v = rg_ir_value_at(g, id);

    if (v->kind == RG_VALUE_INPUT && rg_ir_bound(g, id) != NULL && !all[v->storage].shared) {
      status = take_input(g, id, &all[v->storage]);
    }
  }
  for (int32_t i = 0; all != NULL && i < n; i++) {
    rg_tensor_release(all[i].own);
  }
  rg_host_free(all);
  return status;
}

/* -- Random numbers ---------------------------------------------------------------------------- */

/* SplitMix64's finalizer. */
static uint64_t mix(uint64_t x)
{
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* Another stream in the place of one: its seed is a number that is drawn from that one. */
static rg_status take_stream(rg_graph *g, int32_t generator, int32_t *made)
{
  rg_generator *from = rg_ir_generator_of(g, generator);
  rg_generator *own;
  rg_status status;

  from = from != NULL ? from : rg_generator_default();
  RG_TRY(rg_generator_new(mix(rg_generator_seed(from) + mix(rg_generator_take(from, 1) + 1)) >> 11,
                          &own));
  status = rg_ir_generator_add(g, own, made);
  rg_generator_release(own);
  return status;
}

static rg_status take_streams(rg_graph *g)
{
  int32_t n = 0; /* generators */

  for (int32_t i = 0; i < rg_ir_n_nodes(g); i++) {
    n = (int32_t)rg_max_i64(n, rg_ir_node_at(g, i)->generator + 1);
  }
  int32_t *made = rg_host_zeroed((size_t)n * sizeof(*made)); /* 0: none yet */
  rg_status status = made != NULL ? RG_OK : rg_fail(RG_ENOMEM, "plan: no memory for streams");

  for (int32_t i = 0; i < rg_ir_n_nodes(g) && status == RG_OK; i++) {
    const int32_t from = rg_ir_node_at(g, i)->generator;

    if (from >= 0 && made[from] == 0) {
      status = take_stream(g, from, &made[from]);
    }
    if (from >= 0 && status == RG_OK) {
      rg_ir_node_at(g, i)->generator = made[from];
    }
  }
  rg_host_free(made);
  return status;
}

/* -- Clones ------------------------------------------------------------------------------------ */

/* A plan that writes what was there before would do so twice. */
static rg_status check_states(const rg_graph *g)
{
  if (rg_ir_n_states(g) == 0) {
    return RG_OK;
  }
  const int32_t value = rg_ir_state_at(g, 0);
  const rg_ir_value *v = rg_ir_value_at(g, value);
  const char *name = rg_ir_text_of(g, v->name);
  char text[RG_TENSOR_TEXT];

  return rg_fail(RG_ENOSUP,
                 "plan: it writes to %s%s%%%d (%s%s)%s, and so would its clone: one that writes to "
                 "what is outside is not cloned",
                 name, *name != '\0' ? ", " : "", value, rg_dtype_name(v->meta.dtype),
                 rg_shape_text(v->meta.shape, v->meta.ndim, text, sizeof(text)),
                 rg_ir_n_states(g) > 1 ? " and others" : "");
}

static rg_status emit_own(rg_graph *g, rg_plan **out)
{
  const int32_t n = rg_ir_n_outputs(g);
  rg_tensor **outputs = rg_host_zeroed((size_t)n * sizeof(*outputs));
  rg_status status = outputs != NULL ? RG_OK : rg_fail(RG_ENOMEM, "plan: no memory for a clone");

  status = status == RG_OK ? take_inputs(g) : status;
  status = status == RG_OK ? take_streams(g) : status;
  if (status == RG_OK) {
    for (int32_t i = 0; i < n; i++) {
      rg_ir_output_own(g, i);
    }
    status = rg_graph_plan(g, outputs, out);
  }
  for (int32_t i = 0; outputs != NULL && i < n; i++) {
    rg_tensor_release(outputs[i]);
  }
  rg_host_free(outputs);
  return status;
}

rg_status rg_plan_clone(rg_plan *plan, rg_plan **out)
{
  rg_graph *g;
  rg_status status;

  if (plan == NULL || out == NULL) {
    return rg_fail(RG_EARG, "plan: a pointer is NULL");
  }
  if (plan->graph == NULL) {
    return rg_fail(RG_ENOSUP, "plan: it was captured, and only plans of graphs have clones");
  }
  RG_TRY(check_states(plan->graph));
  RG_TRY(check_inputs(plan->graph));
  if (rg_capturing()) {
    return rg_fail(RG_ECAPTURE, "plan: it is not cloned inside a capture");
  }
  (void)pthread_mutex_lock(&lock);
  status = rg_graph_copy(plan->graph, &g);
  (void)pthread_mutex_unlock(&lock);
  RG_TRY(status);
  status = emit_own(g, out);
  rg_graph_release(g);
  return status;
}

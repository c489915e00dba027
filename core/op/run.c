/* SPDX-License-Identifier: MIT */
/*
** The dispatcher: every call of every operation passes here, so that what is true of all operations
** (checks, autocast, allocation, random numbers, versions, recording) is written once.
*/
#include "op/list.h"
#include "op/op.h"

_Thread_local rg_capture_hook *rg_capture_active;
_Thread_local bool rg_capture_dry;
const rg_tape_hooks *rg_tape;
_Thread_local const rg_graph_hooks *rg_graph_recorder;
static _Thread_local int32_t grad_off;
static _Thread_local rg_recorder *recorders;

enum { INLINE_INPUTS = 16 };

/* -- Recorders ------------------------------------------------------------------- */

void rg_recorder_push(rg_recorder *recorder)
{
  recorder->next = recorders;
  recorders = recorder;
  rg_ring_on |= RG_RING_TOLD;
}

void rg_recorder_pop(rg_recorder *recorder)
{
  for (rg_recorder **link = &recorders; *link != NULL; link = &(*link)->next) {
    if (*link == recorder) {
      *link = recorder->next;
      break;
    }
  }
  rg_ring_on = recorders != NULL ? rg_ring_on : rg_ring_on & ~(uint32_t)RG_RING_TOLD;
}

static rg_status tell(const rg_call *call, rg_tensor *const *out)
{
  for (rg_recorder *r = recorders; r != NULL; r = r->next) {
    RG_TRY(r->ran(r, call, out));
  }
  return rg_graph_recorder != NULL ? rg_graph_recorder->ran(call, out) : RG_OK;
}

/* -- Gradients ------------------------------------------------------------------- */

int32_t rg_grad_mode(int32_t on)
{
  int32_t before = !grad_off;

  grad_off = !on;
  return before;
}

/* Does gradient flow into an input, or through what is written to? */
static bool flows(const rg_call *call, rg_tensor *const *out)
{
  int32_t n_out = call->n_out - call->op->n_hidden;

  if (grad_off || rg_tape == NULL) {
    return false;
  }
  for (int32_t i = 0; i < call->n_in; i++) {
    if (call->in[i] != NULL && rg_tensor_tracked(call->in[i])) {
      return true;
    }
  }
  for (int32_t i = 0; i < n_out; i++) {
    if (out[i] != NULL && rg_tensor_tracked(out[i])) {
      return true;
    }
  }
  return false;
}

/* -- Checking and converting inputs ---------------------------------------------- */

static rg_status check_inputs(rg_call *call, rg_tensor *const *out)
{
  const rg_tensor *first = NULL;

  for (int32_t i = 0; i < call->n_in; i++) {
    const rg_tensor *x = call->in[i];

    if (x == NULL) {
      continue; /* infer knows which may be missing */
    }
    if ((x->_flags & RG_TENSOR_ASK) != 0) {
      RG_TRY(rg_tensor_check(x, call->op->name));
    }
    if (first == NULL) {
      first = x;
    } else if (x->_device != first->_device) {
      return rg_fail(RG_EDEVICE, "%s: tensors on %s and on %s", call->op->name,
                     rg_device_name(first->_device), rg_device_name(x->_device));
    }
  }
  if (first == NULL) {
    first = out[0]; /* checked with the other results */
  }
  call->device = first != NULL ? first->_device : RG_CPU;
  return RG_OK;
}

/* Does input i have to be converted? */
static bool converts(const rg_call *call, int32_t i)
{
  const rg_tensor *x = call->in[i];

  if (x == NULL || x->_dtype == call->compute) {
    return false;
  }
  int32_t role = rg_input_of(call, i)->role;

  return role == RG_ROLE_INPUT ||
         ((role == RG_ROLE_WEIGHT || role == RG_ROLE_BIAS) &&
          ((x->_flags & RG_TENSOR_PARAM) == 0 || !rg_dtype_is_float(x->_dtype)));
}

/* Replace the inputs that have another type; made[] are to be released after the call. */
static rg_status convert_inputs(const rg_call *call, const rg_tensor **in, rg_tensor **made)
{
  for (int32_t i = 0; i < call->n_in; i++) {
    made[i] = NULL;
    in[i] = call->in[i];
  }
  for (int32_t i = 0; i < call->n_in; i++) {
    if (converts(call, i)) {
      RG_TRY(rg_cast(call->in[i], call->compute, &made[i]));
      in[i] = made[i];
    }
  }
  return RG_OK;
}

/* -- Results --------------------------------------------------------------------- */

static rg_status check_result(const rg_call *call, const rg_tensor *x, const rg_meta *want)
{
  char a[96];
  char b[96];

  RG_TRY(rg_tensor_check(x, call->op->name));
  if (x->_device != call->device) {
    return rg_fail(RG_EDEVICE, "%s: the result is on %s and does not go into %s on %s",
                   call->op->name, rg_device_name(call->device), rg_tensor_text(x, b, sizeof(b)),
                   rg_device_name(x->_device));
  }
  if (!rg_tensor_shaped(x, want->shape, want->ndim)) {
    return rg_fail(RG_ESHAPE, "%s: the result has the shape %s and does not fit into %s",
                   call->op->name, rg_shape_text(want->shape, want->ndim, a, sizeof(a)),
                   rg_tensor_text(x, b, sizeof(b)));
  }
  if (x->_dtype != want->dtype) {
    return rg_fail(RG_EDTYPE, "%s: the result is %s and does not go into %s", call->op->name,
                   rg_dtype_name(want->dtype), rg_tensor_text(x, b, sizeof(b)));
  }
  return rg_tensor_writable(x, call->op->name);
}

/* Is x, to be written, read by an input in another arrangement? */
static bool clashes(const rg_call *call, const rg_tensor *x)
{
  for (int32_t i = 0; i < call->n_in; i++) {
    const rg_tensor *in = call->in[i];

    if (in != NULL && rg_tensor_overlap(x, in) && !rg_tensor_same_view(x, in)) {
      return true;
    }
  }
  return false;
}

/* A storage that was written is another version; a dry capture wrote nothing, but what it made of
** weights before this step is not what later steps read. */
static void count_write(rg_storage *storage, bool dry)
{
  if (dry) {
    rg_weight_cast_wrote(rg_storage_root(storage));
  } else {
    rg_storage_wrote(storage);
  }
}

static void count_writes(const rg_call *call, rg_tensor *const *out, bool dry)
{
  for (int32_t i = 0; i < call->n_out; i++) {
    if (out[i] != NULL) {
      count_write(out[i]->_storage, dry);
    }
  }
  if (call->op->writes) {
    for (int32_t i = 0; i < call->n_in; i++) {
      if (call->in[i] != NULL && rg_call_writes(call, i)) {
        count_write(call->in[i]->_storage, dry);
      }
    }
  }
}

/* -- Running --------------------------------------------------------------------- */

/* On a device: order this thread's stream after others that use the same tensors. */
static rg_status order_streams(const rg_call *call, rg_tensor *const *out)
{
  for (int32_t i = 0; i < call->n_in; i++) {
    if (call->in[i] != NULL) {
      RG_TRY(rg_tensor_stream_order(call->in[i], rg_call_writes(call, i)));
    }
  }
  for (int32_t i = 0; i < call->n_out; i++) {
    if (out[i] != NULL) {
      RG_TRY(rg_tensor_stream_order(out[i], true));
    }
  }
  return RG_OK;
}

rg_status rg_execute(const rg_call *call, rg_kernel *kernel, rg_tensor *const *out, rg_frame *frame)
{
  rg_block scratch = { 0 };
  int32_t stream = 0;
  rg_status status;

  if (call->scratch_bytes > 0) {
    RG_TRY(rg_block_alloc(call->device, call->scratch_bytes, &scratch));
    frame->scratch = scratch.data;
  }
  if (call->device != RG_CPU) {
    stream = rg_stream_hold(call->device);
  }
  status = kernel(call, out, frame);
  if (call->device != RG_CPU) {
    rg_stream_let_go(call->device, stream);
  }
  if (scratch.data != NULL) {
    rg_block_free(&scratch);
    frame->scratch = NULL;
  }
  return status;
}

/* A call whose kernel gets weights in a lower-precision type, and those. */
typedef struct weight_casts {
  rg_call call;
  const rg_tensor *in[INLINE_INPUTS];
  rg_tensor made[RG_MAX_WEIGHT_CASTS];
  int32_t n;
} weight_casts;

static void weight_casts_end(weight_casts *l)
{
  for (int32_t i = 0; i < l->n; i++) {
    rg_storage_release(l->made[i]._storage);
  }
}

/* Where there is no memory for a copy the kernel gets the weight: it converts it as it reads. */
static rg_status cast_weights(const rg_call *call, weight_casts *l)
{
  l->n = 0;
  for (int32_t i = 0; i < call->n_in && call->n_in <= INLINE_INPUTS; i++) {
    const rg_tensor *x = call->in[i];

    l->in[i] = x;
    if (x != NULL && rg_input_of(call, i)->role == RG_ROLE_WEIGHT && l->n < RG_MAX_WEIGHT_CASTS &&
        rg_weight_casts(x, call->weight_cast)) {
      rg_status status = rg_weight_cast(x, call->weight_cast, &l->made[l->n]);

      if (status == RG_OK) {
        l->in[i] = &l->made[l->n++];
      } else if (status != RG_ENOMEM) {
        weight_casts_end(l);
        return status;
      }
    }
  }
  l->call = *call;
  l->call.in = l->in;
  return RG_OK;
}

/* A step of a dry capture; call: as the caller made it. */
static rg_status prepare(const rg_call *call, const rg_call *read, rg_kernel *kernel,
                         rg_tensor *const *out)
{
  rg_frame frame = { .path = "" };

  RG_TRY(rg_capture_active(read, kernel, out, &frame));
  count_writes(call, out, true);
  return RG_OK;
}

/* The call with inputs converted and results at hand.  read: the same as the kernel gets it. */
static rg_status perform_as(rg_call *call, rg_call *read, rg_tensor *const *out)
{
  rg_kernel *kernel = rg_backend_kernel(call->device, call->op);
  rg_frame frame = { .path = "" };
  uint32_t watched = rg_ring_on;
  int64_t begun = -1;

  if (kernel == NULL) {
    return rg_fail(RG_ENOSUP, "%s: %s has no kernel for it", call->op->name,
                   rg_device_name(call->device));
  }
  if (rg_capture_active != NULL && rg_capture_dry) {
    return prepare(call, read, kernel, out);
  }
  if (call->device != RG_CPU) {
    RG_TRY(order_streams(read, out));
  }
  if (call->op->draws) {
    rg_generator *g = call->generator != NULL ? call->generator : rg_generator_default();

    call->draw.seed = rg_generator_seed(g);
    call->draw.offset = rg_generator_take(g, (uint64_t)call->n_draws);
    call->drew = true;
    rg_numbers_drawn += call->generator == NULL ? (uint64_t)call->n_draws : 0;
    read->draw = call->draw;
  }
  if (watched != 0) {
    begun = rg_observe_begin(read, RG_EVENT_OP);
  }
  if (rg_capture_active != NULL) {
    RG_TRY(rg_capture_active(read, kernel, out, &frame));
  } else {
    RG_TRY(rg_execute(read, kernel, out, &frame));
  }
  if (begun >= 0) {
    rg_observe_end(begun, read, out, frame.path);
  }
  count_writes(call, out, false);
  if ((watched & (RG_RING_TOLD | RG_RING_GRAPH)) != 0) {
    call->drew = false;
    RG_TRY(tell(call, out));
  }
  return call->tracked ? rg_tape->ran(call, out) : RG_OK;
}

static rg_status perform(rg_call *call, rg_tensor *const *out)
{
  weight_casts l;
  rg_status status;

  if (call->device == RG_CPU || call->weight_cast < 0) {
    return perform_as(call, call, out);
  }
  RG_TRY(cast_weights(call, &l));
  status = perform_as(call, l.n > 0 ? &l.call : call, out);
  weight_casts_end(&l);
  return status;
}

/* Write into tensors the caller owns that an input overlaps: into fresh ones first, then over. */
static rg_status perform_aside(rg_call *call, rg_tensor *const *out)
{
  rg_tensor *fresh[RG_MAX_OUT] = { 0 };
  rg_status status = RG_OK;

  for (int32_t i = 0; i < call->n_out && status == RG_OK; i++) {
    status = rg_empty(call->out[i].dtype, call->device, call->out[i].shape, call->out[i].ndim,
                      &fresh[i]);
  }
  if (status == RG_OK) {
    status = perform(call, fresh);
  }
  for (int32_t i = 0; i < call->n_out && status == RG_OK; i++) {
    if (out[i] != NULL) {
      status = rg_copy_(out[i], fresh[i]);
    }
  }
  for (int32_t i = 0; i < call->n_out; i++) {
    rg_tensor_release(fresh[i]);
  }
  return status;
}

/* Allocate what is missing, run, hand out. */
static rg_status produce(rg_call *call, rg_tensor **out)
{
  int32_t n_hidden = call->whole ? 0 : call->op->n_hidden;
  int32_t n_visible = call->n_out - n_hidden;
  rg_tensor *all[RG_MAX_OUT] = { 0 };
  bool made[RG_MAX_OUT] = { false };
  bool aside = false;
  rg_status status = RG_OK;

  if (n_hidden > 0 && !call->tracked) {
    call->n_out = n_visible;
  }
  for (int32_t i = 0; i < call->n_out && status == RG_OK; i++) {
    if (i < n_visible && out[i] != NULL) {
      all[i] = out[i];
      status = check_result(call, out[i], &call->out[i]);
      aside = aside || clashes(call, out[i]);
    } else {
      status = rg_make_result(call, i, &all[i]);
      made[i] = status == RG_OK;
    }
  }
  if (status == RG_OK) {
    status = aside ? perform_aside(call, all) : perform(call, all);
  }
  for (int32_t i = 0; i < call->n_out; i++) {
    if (made[i] && status == RG_OK && i < n_visible) {
      out[i] = all[i];
    } else if (made[i]) {
      rg_tensor_release(all[i]); /* a hidden one lives on where a recorder kept it */
    }
  }
  return status;
}

/* The same with inputs converted to call->compute first. */
static rg_status produce_converted(rg_call *call, rg_tensor **out)
{
  const rg_tensor *in_inline[INLINE_INPUTS];
  rg_tensor *made_inline[INLINE_INPUTS];
  const rg_tensor *const *original = call->in;
  size_t n = (size_t)call->n_in;
  bool fits = call->n_in <= INLINE_INPUTS;
  const rg_tensor **in = fits ? in_inline : rg_host_alloc(n * sizeof(*in));
  rg_tensor **made = fits ? made_inline : rg_host_zeroed(n * sizeof(*made));
  rg_status status = RG_OK;

  if (in == NULL || made == NULL) {
    status =
        rg_fail(RG_ENOMEM, "%s: no memory for a list of %d tensors", call->op->name, call->n_in);
    n = 0;
  } else {
    status = convert_inputs(call, in, made);
  }
  if (status == RG_OK) {
    call->in = in;
    status = produce(call, out);
    call->in = original;
  }
  for (size_t i = 0; i < n; i++) {
    rg_tensor_release(made[i]);
  }
  if (!fits) {
    rg_host_free(in);
    rg_host_free(made);
  }
  return status;
}

static rg_status run(rg_call *call, rg_tensor **out)
{
  call->compute = -1;
  call->weight_cast = -1;
  call->n_out = 0;
  call->scratch_bytes = 0;
  call->n_draws = 0;
  call->drew = false;
  call->draw_at = NULL;
  if (rg_interrupt_pending()) {
    return rg_fail(RG_EINTR, "interrupted");
  }
  RG_TRY(check_inputs(call, out));
  RG_TRY(rg_check_schema(call));
  RG_TRY(call->op->infer(call));
  for (int32_t i = 0; i < call->n_out && !call->op->stored; i++) {
    RG_TRY(rg_check_computes(call->op, call->out[i].dtype));
  }
  call->tracked = flows(call, out);
  if (call->tracked) {
    RG_TRY(rg_tape->check(call, out));
  }
  if (call->compute >= 0) {
    for (int32_t i = 0; i < call->n_in; i++) {
      if (converts(call, i)) {
        return produce_converted(call, out);
      }
    }
  }
  return produce(call, out);
}

/* A call for which there was no memory is made again, and draws what it would have drawn: what is
** seeded stays the same, and what is computed again draws alike. */
static rg_status run_drawing(rg_call *call, rg_tensor **out)
{
  rg_status status = run(call, out);

  if (status != RG_OK && call->drew) {
    rg_generator *g = call->generator != NULL ? call->generator : rg_generator_default();

    if (rg_generator_give_back(g, call->draw.offset, (uint64_t)call->n_draws)) {
      rg_numbers_drawn -= call->generator == NULL ? (uint64_t)call->n_draws : 0;
    }
  }
  return status;
}

rg_status rg_run(rg_call *call, rg_tensor **out)
{
  call->whole = false;
  return call->op->draws ? run_drawing(call, out) : run(call, out);
}

rg_status rg_run_whole(rg_call *call, rg_tensor **out)
{
  call->whole = true;
  return call->op->draws ? run_drawing(call, out) : run(call, out);
}

rg_status rg_run_fresh(rg_call *call, rg_tensor **out)
{
  rg_tensor *result[RG_MAX_OUT] = { 0 };

  if (out == NULL) {
    return rg_fail(RG_EARG, "%s: out is NULL", call->op->name);
  }
  RG_TRY(rg_run(call, result));
  for (int32_t i = 0; i < RG_MAX_OUT && result[i] != NULL; i++) {
    out[i] = result[i];
  }
  return RG_OK;
}

rg_status rg_run1(const rg_op *op, const rg_tensor *const *in, int32_t n_in, const void *args,
                  rg_tensor **out)
{
  rg_call call;

  call.op = op;
  call.in = in;
  call.n_in = n_in;
  call.args = args;
  call.generator = NULL;
  return rg_run_fresh(&call, out);
}

rg_status rg_run_into(const rg_op *op, const rg_tensor *const *in, int32_t n_in, const void *args,
                      rg_tensor *x)
{
  rg_call call;

  call.op = op;
  call.in = in;
  call.n_in = n_in;
  call.args = args;
  call.generator = NULL;
  RG_TRY(rg_tensor_check(x, op->name));
  return rg_run(&call, &x);
}

/* SPDX-License-Identifier: MIT */
/*
** Convolutions and their gradients by oneDNN, with what it cannot read (f16, gaps, bf16 without
** AVX-512) copied first.
**
** Images are brought to the layout that it likes best, or read in place (channels last is what its
** kernels read as well as their own order).
*/
#include <string.h>

#include "cpu/conv.h"
#include "cpu/cpu.h"
#include "cpu/packed.h"

/* One array of the call, and the copy oneDNN works on where it cannot take the tensor. */
typedef struct side {
  rg_tensor *tensor; /* NULL: there is none */
  bool is_result;
  bool copied;
  rg_tensor copy;
  rg_block block; /* of the copy, while it is held */
} side;

/* Everything a run needs; in a plan it is kept by the step's memo. */
typedef struct state {
  side side[RG_DNNL_ARRAYS];
  rg_dnnl *dnnl;
  bool stays;
  bool plain;    /* images are read in place */
  bool standard; /* there is no other way to go */
  bool adds;     /* to what lies in the result */
  const void *packed;
  uint64_t version; /* of the weight when it was packed */
  rg_block scratch;
  void *room; /* scratch; in a plan's arena it stays good */
} state;

/* -- What oneDNN reads -------------------------------------------------------------------- */

bool rg_conv_dnnl_reads(int32_t dtype)
{
  return dtype == RG_F32 || (dtype == RG_BF16 && rg_dnnl_reads_bf16());
}

/* Take a copy side by side, in a type oneDNN reads. */
static rg_status take_copy(side *s)
{
  const rg_tensor *x = s->tensor;
  int64_t stride = 1;

  s->copy = rg_tensor_struct(x);
  s->copy._dtype = rg_conv_dnnl_reads(x->_dtype) ? x->_dtype : RG_F32;
  s->copy._flags = RG_TENSOR_CONTIGUOUS;
  for (int32_t i = x->_ndim - 1; i >= 0; i--) {
    s->copy._stride[i] = stride;
    stride *= x->_shape[i];
  }
  RG_TRY(rg_block_alloc(RG_CPU, x->_count * rg_dtype_bytes(s->copy._dtype), &s->block));
  s->copy._data = s->block.data;
  s->copied = true;
  return RG_OK;
}

static rg_status set_side(state *s, int i, const rg_tensor *x, bool is_result)
{
  side *to = &s->side[i];

  to->tensor = (rg_tensor *)(uintptr_t)x;
  to->is_result = is_result;
  if (x == NULL || (rg_conv_dnnl_reads(x->_dtype) && rg_is_contiguous(x))) {
    return RG_OK;
  }
  return take_copy(to);
}

/* What oneDNN works on. */
static const rg_tensor *at_hand(const side *s)
{
  return s->copied ? &s->copy : s->tensor;
}

static bool keeps(const side *s)
{
  return !s->copied && (s->tensor->_flags & RG_TENSOR_PARAM) != 0 && !s->is_result;
}

/* -- The primitive ------------------------------------------------------------------------ */

/* Images as batch, channels, rows, columns, however they lie. */
static rg_dnnl_array images(const rg_tensor *x, int32_t layout, int32_t inner, bool plain)
{
  const int axis[4] = { 0, rg_channels_axis(layout), rg_rows_axis(layout),
                        rg_rows_axis(layout) + 1 };
  rg_dnnl_array array = { .ndim = 4, .dtype = x->_dtype, .inner = inner };

  array.form = plain && x->_dtype == inner ? RG_DNNL_AS_IS : RG_DNNL_CONVERTED;
  for (int i = 0; i < 4; i++) {
    array.size[i] = x->_shape[axis[i]];
    array.stride[i] = x->_stride[axis[i]];
  }
  return array;
}

static rg_dnnl_array kernels(const rg_tensor *w, int64_t groups, int32_t form, int32_t inner)
{
  rg_dnnl_array array = {
    .ndim = groups > 1 ? 5 : 4, .form = form, .dtype = w->_dtype, .inner = inner
  };
  int skip = groups > 1 ? 1 : 0;

  for (int i = 0; i < 4; i++) {
    array.size[i + skip] = w->_shape[i];
    array.stride[i + skip] = w->_stride[i];
  }
  if (groups > 1) {
    array.size[0] = groups;
    array.size[1] /= groups;
    array.stride[0] = array.size[1] * array.stride[1];
  }
  return array;
}

static void spec_of(const state *s, const rg_call *call, int32_t dtype, rg_dnnl_spec *spec)
{
  const rg_conv2d_args *args = call->args;
  const rg_conv2d_options *o = &args->o;
  const side *weight = &s->side[RG_DNNL_WEIGHT];
  const side *bias = &s->side[RG_DNNL_BIAS];
  rg_cost cost = call->op->cost(call);

  memset(spec, 0, sizeof(*spec)); /* specs are compared byte by byte */
  spec->kind = call->op->id == RG_OP_CONV2D             ? RG_DNNL_CONV
               : call->op->id == RG_OP_CONV2D_BACK_DATA ? RG_DNNL_CONV_DATA
                                                        : RG_DNNL_CONV_WEIGHT;
  spec->array[RG_DNNL_SRC] = images(at_hand(&s->side[RG_DNNL_SRC]), o->layout, dtype, s->plain);
  spec->array[RG_DNNL_DST] = images(at_hand(&s->side[RG_DNNL_DST]), o->layout, dtype, s->plain);
  spec->array[RG_DNNL_WEIGHT] = kernels(at_hand(weight), o->groups,
                                        keeps(weight) ? RG_DNNL_PACKED : RG_DNNL_CONVERTED, dtype);
  if (bias->tensor != NULL) {
    const rg_tensor *b = at_hand(bias);

    spec->array[RG_DNNL_BIAS] = (rg_dnnl_array){
      .size = { b->_count }, .stride = { 1 }, .ndim = 1, .dtype = b->_dtype, .inner = b->_dtype
    };
  }
  for (int i = 0; i < 2; i++) {
    spec->stride[i] = o->stride[i];
    spec->dilation[i] = o->dilation[i];
    spec->pad_low[i] = o->pad_low[i];
    spec->pad_high[i] = o->pad_high[i];
  }
  spec->act = call->op->id == RG_OP_CONV2D ? o->act : RG_ACT_NONE;
  spec->sum = s->adds;
  spec->n_threads = rg_threads_for(cost.flops);
}

static rg_status set_sides(state *s, const rg_call *call, rg_tensor *const *out)
{
  const rg_tensor *b = call->n_in > 2 ? call->in[2] : NULL;

  switch (call->op->id) {
  case RG_OP_CONV2D:
    RG_TRY(set_side(s, RG_DNNL_SRC, call->in[0], false));
    RG_TRY(set_side(s, RG_DNNL_WEIGHT, call->in[1], false));
    RG_TRY(set_side(s, RG_DNNL_BIAS, b, false));
    return set_side(s, RG_DNNL_DST, out[0], true);
  case RG_OP_CONV2D_BACK_DATA:
    RG_TRY(set_side(s, RG_DNNL_DST, call->in[0], false));
    RG_TRY(set_side(s, RG_DNNL_WEIGHT, call->in[1], false));
    return set_side(s, RG_DNNL_SRC, out[0], true);
  default:
    RG_TRY(set_side(s, RG_DNNL_SRC, call->in[0], false));
    RG_TRY(set_side(s, RG_DNNL_DST, call->in[1], false));
    RG_TRY(set_side(s, RG_DNNL_WEIGHT, out[0], true));
    return set_side(s, RG_DNNL_BIAS, out[1], true);
  }
}

static rg_status prepare(state *s, const rg_call *call, rg_tensor *const *out)
{
  int32_t dtype = rg_conv_dnnl_reads(out[0]->_dtype) ? out[0]->_dtype : RG_F32;
  rg_dnnl_spec spec;

  RG_TRY(set_sides(s, call, out));
  spec_of(s, call, dtype, &spec);
  if (s->stays) {
    RG_TRY(rg_dnnl_new(&spec, &s->dnnl));
  } else {
    RG_TRY(rg_dnnl_cached(&spec, &s->dnnl));
  }
  if (!s->standard && rg_dnnl_is_plain_code(s->dnnl)) {
    return rg_fail(RG_ENOSUP, "%s: oneDNN has no kernel that reads such images in place",
                   call->op->name);
  }
  RG_TRY(rg_block_alloc(RG_CPU, rg_max_i64(64, rg_dnnl_scratch_bytes(s->dnnl)), &s->scratch));
  s->room = s->scratch.data;
  return RG_OK;
}

/* Give back what eager calls hold only while they run; in a plan addresses stay good. */
static void give_back(rg_block *block)
{
  if (block->data != NULL) {
    rg_block_free(block);
    block->data = NULL;
  }
}

static void done(state *s)
{
  give_back(&s->scratch);
  for (int i = RG_DNNL_ARRAYS - 1; i >= 0; i--) {
    give_back(&s->side[i].block);
  }
}

/*
** oneDNN 2.6 gathers the pixels that a kernel of 1 x 1 with a stride reads, whole vectors of
** channels of each, into room for the channels that there are: where these do not fill vectors
** it writes behind the room's end.
*/
bool rg_conv_dnnl_is_plain(const rg_call *call)
{
  enum { LANES = 16 };
  const rg_conv2d_options *o = &((const rg_conv2d_args *)call->args)->o;
  const rg_conv2d_sizes s = rg_conv2d_sizes_of(call);

  return s.w[0] != 1 || s.w[1] != 1 || (o->stride[0] == 1 && o->stride[1] == 1) ||
         (s.c / s.groups % LANES == 0 && s.o / s.groups % LANES == 0);
}

/* -- Running ------------------------------------------------------------------------------ */

/* A kept weight's own description. */
typedef struct plain_weight {
  rg_dnnl_array lies;
  const void *data;
} plain_weight;

static rg_status pack(void *context, const rg_dnnl *dnnl, void *packed)
{
  const plain_weight *w = context;

  return rg_dnnl_pack(dnnl, &w->lies, w->data, packed);
}

static rg_status get_packed(state *s, const rg_call *call)
{
  const rg_conv2d_args *args = call->args;
  const rg_tensor *w = s->side[RG_DNNL_WEIGHT].tensor;
  plain_weight plain = { kernels(w, args->o.groups, RG_DNNL_AS_IS, w->_dtype), w->_data };
  uint64_t offset = (uint64_t)((char *)w->_data - (char *)w->_storage->block.data);
  uint64_t key[4] = { 0, offset, (uint64_t)w->_shape[0] << 32 | (uint64_t)w->_shape[1],
                      (uint64_t)w->_shape[2] << 40 ^ (uint64_t)w->_shape[3] << 8 ^
                          (uint64_t)w->_dtype };

  if (s->packed != NULL && rg_storage_version(w->_storage) == s->version) {
    return RG_OK;
  }
  return rg_packed_get(w->_storage, key, s->dnnl, pack, &plain, &s->packed, &s->version);
}

/* The activation that oneDNN left, over what it computed. */
typedef struct late {
  float *y;
  int32_t act;
} late;

static bool late_job(void *work, int64_t begin, int64_t end)
{
  const late *w = work;

  rg_activate(w->act, RG_LANE_F32, w->y + begin, end - begin);
  return true;
}

static rg_status act_late(const state *s, const rg_call *call, void *y)
{
  const int64_t count = at_hand(&s->side[RG_DNNL_DST])->_count;
  late w = { .y = y, .act = ((const rg_conv2d_args *)call->args)->o.act };

  return rg_parallel(rg_threads_for(2.0 * (double)count), count, late_job, &w);
}

/* Are n elements finite? */
static bool are_finite(const rg_tensor *x)
{
  enum { LANES = 16, SOME = 32 * LANES };
  float some[SOME], rest[LANES] = { 0 };
  float sum = 0;

  for (int64_t i = 0; i < x->_count; i += SOME) {
    const int64_t n = rg_min_i64(SOME, x->_count - i);

    memset(some, 0, sizeof(some));
    rg_run_f32(x->_data, x->_dtype, i, 1, n, some);
    for (int64_t j = 0; j < SOME; j++) {
      rest[j % LANES] += some[j] * 0;
    }
  }
  for (int64_t j = 0; j < LANES; j++) {
    sum += rest[j];
  }
  return sum == 0;
}

/* A kernel that multiplies by the zeros of the padding gives nan where the other factor is inf. */
static bool may_run(const state *s, const rg_call *call)
{
  const rg_conv2d_options *o = &((const rg_conv2d_args *)call->args)->o;
  const bool padded =
      o->pad_low[0] > 0 || o->pad_low[1] > 0 || o->pad_high[0] > 0 || o->pad_high[1] > 0;

  if (!padded || call->op->id == RG_OP_CONV2D_BACK_DATA || !rg_dnnl_multiplies_padding(s->dnnl)) {
    return true;
  }
  return are_finite(at_hand(&s->side[call->op->id == RG_OP_CONV2D ? RG_DNNL_WEIGHT : RG_DNNL_DST]));
}

static rg_status run(state *s, const rg_call *call, bool *finite)
{
  void *data[RG_DNNL_ARRAYS] = { NULL };

  for (int i = 0; i < RG_DNNL_ARRAYS; i++) {
    side *at = &s->side[i];

    if (at->tensor == NULL) {
      continue;
    }
    data[i] = at_hand(at)->_data;
    if (at->copied && !at->is_result) {
      RG_TRY(rg_cpu_convert(&at->copy, at->tensor));
    }
  }
  *finite = may_run(s, call);
  if (!*finite) {
    return RG_OK;
  }
  if (keeps(&s->side[RG_DNNL_WEIGHT])) {
    RG_TRY(get_packed(s, call));
    data[RG_DNNL_WEIGHT] = (void *)(uintptr_t)s->packed;
  }
  rg_waits_for(rg_threads()); /* as many as it was planned for, or one */
  RG_TRY(rg_dnnl_run(s->dnnl, data, s->room));
  RG_TRY(rg_dnnl_leaves_act(s->dnnl) ? act_late(s, call, data[RG_DNNL_DST]) : RG_OK);
  for (int i = 0; i < RG_DNNL_ARRAYS; i++) {
    side *at = &s->side[i];

    if (at->tensor != NULL && at->copied && at->is_result) {
      RG_TRY(rg_cpu_convert(at->tensor, &at->copy));
    }
  }
  return RG_OK;
}

static rg_status run_once(const rg_call *call, rg_tensor *const *out, const state *how,
                          bool *finite)
{
  state s = *how;
  rg_status status = prepare(&s, call, out);

  if (status == RG_OK) {
    status = run(&s, call, finite);
  }
  done(&s);
  return status;
}

static rg_status take_once(const rg_call *call, rg_tensor *const *out, bool plain, bool standard)
{
  state s = { .plain = plain, .standard = standard };
  rg_status status = prepare(&s, call, out);

  done(&s);
  return status;
}

/* -- In pieces (conv_band.c) ------------------------------------------------------------ */

/* May all pieces run?  Asked beforehand where they add: what has been added cannot be again. */
static bool may_begin(const rg_call *call, const state *how)
{
  return !how->adds || are_finite(call->in[1]);
}

static rg_status run_eager(const rg_call *call, rg_tensor *const *out, const state *how,
                           bool *finite)
{
  const rg_conv_cut c = rg_conv_cut_of(call, out);
  rg_conv_piece p;

  const int64_t n = rg_conv_count_pieces(&c);

  if (n == 1) {
    return run_once(call, out, how, finite);
  }
  *finite = may_begin(call, how);
  for (int64_t k = 0; k < n && *finite; k++) {
    if (rg_interrupt_pending()) {
      return rg_fail(RG_EINTR, "interrupted");
    }
    rg_conv_take_piece(&p, call, out, &c, k);
    RG_TRY(run_once(&p.call, p.out, how, finite));
  }
  return RG_OK;
}

rg_status rg_conv_dnnl_foresee(const rg_call *call, rg_tensor *const *out, int32_t way)
{
  const rg_conv_cut c = rg_conv_cut_of(call, out);
  const int64_t n = rg_conv_count_pieces(&c);
  const bool standard = way == rg_conv_dnnl_standard(call);
  rg_conv_piece p;

  for (int64_t k = 0; k < n; k++) {
    if (n > 1) {
      rg_conv_take_piece(&p, call, out, &c, k);
    }
    RG_TRY(take_once(n > 1 ? &p.call : call, n > 1 ? p.out : out, way == RG_CONV_PLAIN, standard));
  }
  return RG_OK;
}

/* -- In a plan -------------------------------------------------------------------------------- */

/* A step's pieces, each prepared once. */
typedef struct steps {
  rg_memo memo;
  rg_conv_cut cut;
  int64_t n;
  struct {
    rg_conv_piece piece;
    state state;
  } at[];
} steps;

static void release(rg_memo *memo)
{
  steps *s = (steps *)memo;

  for (int64_t k = 0; k < s->n; k++) {
    rg_dnnl_release(s->at[k].state.dnnl);
  }
  rg_host_free(s);
}

static rg_status make_steps(const rg_call *call, rg_tensor *const *out, rg_frame *frame,
                            const state *how)
{
  const rg_conv_cut c = rg_conv_cut_of(call, out);
  const int64_t n = rg_conv_count_pieces(&c);
  steps *s = rg_host_zeroed(sizeof(*s) + (size_t)n * sizeof(s->at[0]));

  if (s == NULL) {
    return rg_fail(RG_ENOMEM, "%s: no memory for a step of a plan", call->op->name);
  }
  s->memo.release = release;
  s->cut = c;
  s->n = n;
  *frame->memo = &s->memo;
  for (int64_t k = 0; k < n; k++) {
    s->at[k].state = *how;
    s->at[k].state.stays = true;
  }
  return RG_OK;
}

static rg_status run_step(const rg_call *call, rg_tensor *const *out, rg_frame *frame,
                          const state *how, bool *finite)
{
  steps *s = (steps *)*frame->memo;
  rg_status status = RG_OK;

  if (s == NULL) {
    RG_TRY(make_steps(call, out, frame, how));
    s = (steps *)*frame->memo;
  }
  *finite = s->n == 1 || may_begin(call, how);
  for (int64_t k = 0; k < s->n && status == RG_OK && *finite; k++) {
    rg_conv_piece *p = &s->at[k].piece;
    state *to = &s->at[k].state;
    const rg_call *part = s->n > 1 ? &p->call : call;

    if (k > 0 && rg_interrupt_pending()) {
      return rg_fail(RG_EINTR, "interrupted");
    }
    if (s->n > 1) {
      rg_conv_take_piece(p, call, out, &s->cut, k);
    }
    if (to->dnnl != NULL) {
      status = run(to, part, finite);
      continue;
    }
    status = prepare(to, part, s->n > 1 ? p->out : out);
    if (status == RG_OK) {
      status = run(to, part, finite);
    }
    done(to);
  }
  return status;
}

rg_status rg_conv_dnnl(const rg_call *call, rg_tensor *const *out, rg_frame *frame, int32_t way,
                       bool adds, bool *finite)
{
  const bool plain = way == RG_CONV_PLAIN;
  const bool standard = way == rg_conv_dnnl_standard(call);
  const state how = { .plain = plain, .standard = standard, .adds = adds };

  *finite = true;
  frame->path = !rg_conv_dnnl_reads(out[0]->_dtype) ? "onednn:f32"
                : standard                          ? "onednn"
                : plain                             ? "onednn:plain"
                                                    : "onednn:blocked";
  return frame->memo == NULL ? run_eager(call, out, &how, finite)
                             : run_step(call, out, frame, &how, finite);
}

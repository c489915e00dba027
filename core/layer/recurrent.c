/* SPDX-License-Identifier: MIT */
/*
** Recurrent layers: what comes in was multiplied for all places at once; here one place follows the
** other.
*/
#include "layer/compound.h"

/* What every place shares. */
typedef struct cell {
  const rg_tensor *w;
  const rg_tensor *b;
  int64_t n; /* size of the state */
  int32_t kind;
} cell;

/* -- One place ----------------------------------------------------------------------- */

static rg_value recurrent(rg_compose *f, const cell *own, rg_value h)
{
  RG_F_STEP(rg_linear(h, own->w, own->b, RG_ACT_NONE, &out));
}

/* Gates first .. first + count - 1 of z [batch x gates n]. */
static rg_value gates(rg_compose *f, rg_value z, const cell *own, int64_t first, int64_t count)
{
  return rg_f_narrow(f, z, 1, first * own->n, count * own->n);
}

/* Gates i, f, g, o: c' = f c + i g, h' = o tanh(c'). */
static void lstm(rg_compose *f, const cell *own, rg_value zx, rg_value *h, rg_value *c)
{
  rg_value z = rg_f_add(f, zx, recurrent(f, own, *h));
  rg_value both = rg_f_unary(f, rg_sigmoid, gates(f, z, own, 0, 2));
  rg_value g = rg_f_unary(f, rg_tanh, gates(f, z, own, 2, 1));
  rg_value o = rg_f_unary(f, rg_sigmoid, gates(f, z, own, 3, 1));
  rg_value kept = rg_f_mul(f, gates(f, both, own, 1, 1), *c);

  *c = rg_f_add(f, kept, rg_f_mul(f, gates(f, both, own, 0, 1), g));
  *h = rg_f_mul(f, o, rg_f_unary(f, rg_tanh, *c));
}

/* Gates r, z, n: n = tanh(x + r (W h + b)), h' = (1 - z) n + z h. */
static void gru(rg_compose *f, const cell *own, rg_value zx, rg_value *h)
{
  rg_value zh = recurrent(f, own, *h);
  rg_value both =
      rg_f_unary(f, rg_sigmoid, rg_f_add(f, gates(f, zx, own, 0, 2), gates(f, zh, own, 0, 2)));
  rg_value reset = rg_f_mul(f, gates(f, both, own, 0, 1), gates(f, zh, own, 2, 1));
  rg_value new = rg_f_unary(f, rg_tanh, rg_f_add(f, gates(f, zx, own, 2, 1), reset));

  *h = rg_f_add(f, new, rg_f_mul(f, gates(f, both, own, 1, 1), rg_f_sub(f, *h, new)));
}

/* clang-format off */
#define RG_CELL_ARGS(A, S, AT) \
  A(S, AT, i32, cell, WHOLE, RG_CELL_LSTM, "RG_CELL_...")
/* clang-format on */
RG_ARGS_STRUCT(rg_cell_args, RG_CELL_ARGS);

/* The sequence has checked: a cell is no function of its own. */
static rg_status cell_infer(rg_call *call)
{
  const rg_cell_args *args = call->args;

  call->n_out = args->cell == RG_CELL_LSTM ? 2 : 1;
  if (args->cell < 0 || args->cell >= RG_CELL_COUNT || call->in[3]->_ndim != 2 ||
      (args->cell == RG_CELL_LSTM) != (call->in[2] != NULL)) {
    return rg_fail(RG_EARG, "recurrent_cell: there is no cell %d of these tensors", args->cell);
  }
  return RG_OK;
}

static rg_status cell_expand(const rg_call *call, rg_tensor **out)
{
  const rg_cell_args *args = call->args;
  const cell own = {
    .w = call->in[3], .b = call->in[4], .n = call->in[3]->_shape[1], .kind = args->cell
  };
  rg_compose f = { .what = "recurrent_cell" };
  rg_value h = call->in[1];
  rg_value c = call->in[2];

  if (own.kind == RG_CELL_LSTM) {
    lstm(&f, &own, call->in[0], &h, &c);
  } else {
    gru(&f, &own, call->in[0], &h);
  }
  if (f.status == RG_OK) {
    out[0] = rg_f_hold(h);
    out[1] = own.kind == RG_CELL_LSTM ? rg_f_hold(c) : NULL;
  }
  return rg_f_end(&f);
}

static const rg_arg cell_args[] = { RG_CELL_ARGS(RG_ARG_ROW, rg_cell_args, ) };

const rg_op rg_op_recurrent_cell = {
  .name = "recurrent_cell",
  .doc = "one place of a recurrent layer: the state after it",
  .id = RG_OP_RECURRENT_CELL,
  RG_INPUTS(RG_IN("z", INPUT, ANY), RG_IN("h", INPUT, ANY), RG_OPTIONAL("c", INPUT, ANY),
            RG_IN("w", WEIGHT, ANY), RG_OPTIONAL("b", BIAS, ANY)),
  .result = { "h", "c" },
  RG_ARGS(rg_cell_args, cell_args),
  .infer = cell_infer,
  .expand = cell_expand,
};

/* -- A sequence ---------------------------------------------------------------------- */

/* The state and the outputs, a reference each. */
typedef struct run {
  rg_tensor *h;
  rg_tensor *c;
  rg_tensor **y;
} run;

static void replace(rg_tensor **held, rg_tensor *x)
{
  rg_tensor_release(*held);
  *held = x;
}

/* From the state before to that after place `at`, whose output is kept with an axis for it. */
static rg_status place(const cell *own, const rg_tensor *zx, int64_t at, run *r)
{
  rg_tensor *after[2] = { NULL, NULL };
  rg_tensor *z;
  rg_status status;

  RG_TRY(rg_select(zx, 1, at, &z));
  status = rg_run_body(&rg_op_recurrent_cell,
                       (const rg_tensor *const[]){ z, r->h, r->c, own->w, own->b }, 5,
                       &(rg_cell_args){ .cell = own->kind }, after);
  rg_tensor_release(z);
  RG_TRY(status);
  replace(&r->h, after[0]);
  replace(&r->c, after[1]);
  return rg_unsqueeze(r->h, 1, &r->y[at]);
}

/* A state of zeros where none is given. */
static rg_status begin(const rg_tensor *given, const rg_tensor *zx, int64_t n, rg_tensor **out)
{
  if (given != NULL) {
    *out = rg_f_hold(given);
    return RG_OK;
  }
  RG_TRY(rg_empty(zx->_dtype, zx->_device, (const int64_t[]){ zx->_shape[0], n }, 2, out));
  return rg_fill_(*out, 0);
}

static rg_status sequence(const cell *own, const rg_tensor *zx, const rg_tensor *h,
                          const rg_tensor *c, bool backwards, run *r)
{
  int64_t length = zx->_shape[1];

  RG_TRY(begin(h, zx, own->n, &r->h));
  if (own->kind == RG_CELL_LSTM) {
    RG_TRY(begin(c, zx, own->n, &r->c));
  }
  for (int64_t i = 0; i < length; i++) {
    RG_TRY(place(own, zx, backwards ? length - 1 - i : i, r));
  }
  return RG_OK;
}

/* -- The layer ----------------------------------------------------------------------- */

static rg_status check_state(const char *name, const rg_tensor *x, const int64_t shape[2])
{
  char text[128];

  if (x == NULL) {
    return RG_OK;
  }
  RG_TRY(rg_tensor_check(x, "recurrent"));
  if (!rg_tensor_shaped(x, shape, 2)) {
    return rg_fail(RG_ESHAPE, "recurrent: %s is %s, wanted [%lld,%lld]", name,
                   rg_tensor_text(x, text, sizeof(text)), (long long)shape[0], (long long)shape[1]);
  }
  return RG_OK;
}

/* clang-format off */
#define RG_RECURRENT_ARGS(A, S, AT) \
  A(S, AT, i32, cell, WHOLE, RG_CELL_LSTM, "RG_CELL_...") \
  A(S, AT, i32, backwards, FLAG, 0, "from the last place to the first")
/* clang-format on */
RG_ARGS_STRUCT(rg_recurrent_args, RG_RECURRENT_ARGS);

/* In the order of the call. */
enum { ZX, H, C, W, B };

static rg_status infer(rg_call *call)
{
  const rg_tensor *zx = call->in[ZX];
  const rg_tensor *w = call->in[W];
  int32_t kind = ((const rg_recurrent_args *)call->args)->cell;
  char a[128];
  char b[128];
  int64_t n_gates = kind == RG_CELL_LSTM ? 4 : 3;

  if (kind < 0 || kind >= RG_CELL_COUNT) {
    return rg_fail(RG_EARG, "recurrent: there is no cell %d", kind);
  }
  if (zx->_ndim != 3 || zx->_shape[1] < 1 || w->_ndim != 2 || zx->_shape[2] != w->_shape[0] ||
      w->_shape[0] != n_gates * w->_shape[1]) {
    return rg_fail(RG_ESHAPE,
                   "recurrent: zx is %s and w %s, wanted [batch,length,%lldn], [%lldn,n]",
                   rg_tensor_text(zx, a, sizeof(a)), rg_tensor_text(w, b, sizeof(b)),
                   (long long)n_gates, (long long)n_gates);
  }
  int64_t state[] = { zx->_shape[0], w->_shape[1] };

  if (zx->_shape[1] > INT32_MAX) {
    return rg_fail(RG_ESHAPE, "recurrent: %lld places", (long long)zx->_shape[1]);
  }
  call->n_out = kind == RG_CELL_LSTM ? 3 : 2;
  RG_TRY(check_state("h", call->in[H], state));
  return check_state("c", call->in[C], state);
}

static rg_status expand(const rg_call *call, rg_tensor **out)
{
  const rg_recurrent_args *args = call->args;
  const rg_tensor *const *in = call->in;
  const cell own = { .w = in[W], .b = in[B], .n = in[W]->_shape[1], .kind = args->cell };
  int32_t length = (int32_t)in[ZX]->_shape[1];
  run r = { 0 };
  rg_status status;

  r.y = rg_host_zeroed((size_t)length * sizeof(rg_tensor *));
  if (r.y == NULL) {
    return rg_fail(RG_ENOMEM, "recurrent: no memory for a list of %d places", length);
  }
  status = sequence(&own, in[ZX], in[H], in[C], args->backwards != 0, &r);
  if (status == RG_OK) {
    status = rg_concat((const rg_tensor *const *)r.y, length, 1, &out[0]);
  }
  for (int32_t i = 0; i < length; i++) {
    rg_tensor_release(r.y[i]);
  }
  rg_host_free(r.y);
  if (status == RG_OK) {
    out[1] = rg_tensor_retain(r.h);
    out[2] = rg_tensor_retain(r.c);
  }
  rg_tensor_release(r.h);
  rg_tensor_release(r.c);
  return status;
}

static const rg_arg recurrent_args[] = { RG_RECURRENT_ARGS(RG_ARG_ROW, rg_recurrent_args, ) };

const rg_op rg_op_recurrent = {
  .name = "recurrent",
  .doc = "a recurrent layer over a sequence, in one direction",
  .id = RG_OP_RECURRENT,
  RG_INPUTS(RG_IN("zx", INPUT, ANY), RG_OPTIONAL("h", INPUT, ANY), RG_OPTIONAL("c", INPUT, ANY),
            RG_IN("w", WEIGHT, ANY), RG_OPTIONAL("b", BIAS, ANY)),
  .result = { "y", "h", "c" },
  RG_ARGS(rg_recurrent_args, recurrent_args),
  .infer = infer,
  .expand = expand,
};

rg_status rg_recurrent(const rg_tensor *zx, const rg_tensor *h, const rg_tensor *c,
                       const rg_tensor *w, const rg_tensor *b, int32_t cell_kind, int32_t backwards,
                       rg_tensor **y, rg_tensor **h_last, rg_tensor **c_last)
{
  rg_tensor *out[RG_MAX_OUT] = { NULL };

  if (y == NULL || h_last == NULL || (c_last == NULL && cell_kind == RG_CELL_LSTM)) {
    return rg_fail(RG_EARG, "recurrent: a pointer is NULL");
  }
  RG_TRY(rg_run_body(&rg_op_recurrent, (const rg_tensor *const[]){ zx, h, c, w, b }, 5,
                     &(rg_recurrent_args){ .cell = cell_kind, .backwards = backwards }, out));
  *y = out[0];
  *h_last = out[1];
  if (cell_kind == RG_CELL_LSTM) {
    *c_last = out[2];
  }
  return RG_OK;
}

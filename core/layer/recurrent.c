/* SPDX-License-Identifier: MIT */
/*
** Recurrent layers: what comes in is multiplied for all places at once; then one place follows the
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

/* The state before as [batch x n], where it is given. */
static rg_status given(const rg_tensor *state, rg_tensor **out)
{
  return state != NULL ? rg_reshape(state, &state->_shape[1], 2, out) : RG_OK;
}

/* That after as [1 x batch x n], as the states of several layers lie one behind the other. */
static rg_status last(const rg_tensor *state, rg_tensor **out)
{
  const int64_t shape[] = { 1, state->_shape[0], state->_shape[1] };

  return rg_reshape(state, shape, 3, out);
}

/* A state of zeros where none is given. */
static rg_status begin(const rg_tensor *zx, int64_t n, rg_tensor **out)
{
  if (*out != NULL) {
    return RG_OK;
  }
  RG_TRY(rg_empty(zx->_dtype, zx->_device, (const int64_t[]){ zx->_shape[0], n }, 2, out));
  return rg_fill_(*out, 0);
}

static rg_status sequence(const cell *own, const rg_tensor *zx, bool backwards, run *r)
{
  int64_t length = zx->_shape[1];

  RG_TRY(begin(zx, own->n, &r->h));
  if (own->kind == RG_CELL_LSTM) {
    RG_TRY(begin(zx, own->n, &r->c));
  }
  for (int64_t i = 0; i < length; i++) {
    RG_TRY(place(own, zx, backwards ? length - 1 - i : i, r));
  }
  return RG_OK;
}

/* -- The layer ----------------------------------------------------------------------- */

static rg_status check_state(const char *name, const rg_tensor *x, const int64_t shape[3])
{
  char text[128];

  if (x == NULL) {
    return RG_OK;
  }
  RG_TRY(rg_tensor_check(x, "recurrent"));
  if (!rg_tensor_shaped(x, shape, 3)) {
    return rg_fail(RG_ESHAPE, "recurrent: %s is %s, wanted [1,%lld,%lld]", name,
                   rg_tensor_text(x, text, sizeof(text)), (long long)shape[1], (long long)shape[2]);
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
enum { X, H, C, W, B, WX, BX, N_IN };

/* Of a place at least, and of one number of gates. */
static rg_status check_sizes(const rg_call *call, int64_t n_gates)
{
  const rg_tensor *x = call->in[X];
  const rg_tensor *w = call->in[W];
  const rg_tensor *wx = call->in[WX];
  bool fits =
      x->_ndim == 3 && x->_shape[1] >= 1 && w->_ndim == 2 && w->_shape[0] == n_gates * w->_shape[1];
  long long n = n_gates;
  char a[96];
  char b[96];
  char c[96];

  if (wx == NULL) {
    return fits && x->_shape[2] == w->_shape[0]
               ? RG_OK
               : rg_fail(RG_ESHAPE,
                         "recurrent: x is %s and w %s, wanted [batch,length,%lldn], [%lldn,n]",
                         rg_tensor_text(x, a, sizeof(a)), rg_tensor_text(w, b, sizeof(b)), n, n);
  }
  return fits && wx->_ndim == 2 && wx->_shape[0] == w->_shape[0] && wx->_shape[1] == x->_shape[2]
             ? RG_OK
             : rg_fail(RG_ESHAPE,
                       "recurrent: x is %s, wx %s and w %s, wanted [batch,length,m], [%lldn,m], "
                       "[%lldn,n]",
                       rg_tensor_text(x, a, sizeof(a)), rg_tensor_text(wx, b, sizeof(b)),
                       rg_tensor_text(w, c, sizeof(c)), n, n);
}

static rg_status infer(rg_call *call)
{
  const rg_tensor *x = call->in[X];
  int32_t kind = ((const rg_recurrent_args *)call->args)->cell;

  if (kind < 0 || kind >= RG_CELL_COUNT) {
    return rg_fail(RG_EARG, "recurrent: there is no cell %d", kind);
  }
  RG_TRY(check_sizes(call, kind == RG_CELL_LSTM ? 4 : 3));
  if (call->in[BX] != NULL && call->in[WX] == NULL) {
    return rg_fail(RG_EARG, "recurrent: bx is given without wx");
  }
  int64_t state[] = { 1, x->_shape[0], call->in[W]->_shape[1] };

  if (x->_shape[1] > INT32_MAX) {
    return rg_fail(RG_ESHAPE, "recurrent: %lld places", (long long)x->_shape[1]);
  }
  call->n_out = kind == RG_CELL_LSTM ? 3 : 2;
  RG_TRY(check_state("h", call->in[H], state));
  return check_state("c", call->in[C], state);
}

/* What comes in, multiplied for all places. */
static rg_status multiplied(const rg_tensor *const *in, rg_tensor **zx)
{
  if (in[WX] != NULL) {
    return rg_linear(in[X], in[WX], in[BX], RG_ACT_NONE, zx);
  }
  *zx = rg_f_hold(in[X]);
  return RG_OK;
}

/* All places, and the outputs side by side. */
static rg_status places(const rg_call *call, run *r, rg_tensor **out)
{
  const rg_recurrent_args *args = call->args;
  const rg_tensor *const *in = call->in;
  const cell own = { .w = in[W], .b = in[B], .n = in[W]->_shape[1], .kind = args->cell };
  rg_tensor *zx = NULL;

  RG_TRY(given(in[H], &r->h));
  RG_TRY(given(own.kind == RG_CELL_LSTM ? in[C] : NULL, &r->c));
  RG_TRY(multiplied(in, &zx));
  rg_status status = sequence(&own, zx, args->backwards != 0, r);

  rg_tensor_release(zx);
  RG_TRY(status);
  return rg_concat((const rg_tensor *const *)r->y, (int32_t)in[X]->_shape[1], 1, out);
}

static rg_status expand(const rg_call *call, rg_tensor **out)
{
  int32_t length = (int32_t)call->in[X]->_shape[1];
  run r = { .y = rg_host_zeroed((size_t)length * sizeof(rg_tensor *)) };

  if (r.y == NULL) {
    return rg_fail(RG_ENOMEM, "recurrent: no memory for a list of %d places", length);
  }
  rg_status status = places(call, &r, &out[0]);

  status = status == RG_OK ? last(r.h, &out[1]) : status;
  if (status == RG_OK && r.c != NULL) {
    status = last(r.c, &out[2]);
  }
  for (int32_t i = 0; i < length; i++) {
    rg_tensor_release(r.y[i]);
  }
  rg_host_free(r.y);
  rg_tensor_release(r.h);
  rg_tensor_release(r.c);
  for (int32_t i = 0; i < call->n_out && status != RG_OK; i++) {
    rg_tensor_release(out[i]);
    out[i] = NULL;
  }
  return status;
}

static const rg_arg recurrent_args[] = { RG_RECURRENT_ARGS(RG_ARG_ROW, rg_recurrent_args, ) };

const rg_op rg_op_recurrent = {
  .name = "recurrent",
  .doc = "a recurrent layer over a sequence, in one direction",
  .id = RG_OP_RECURRENT,
  RG_INPUTS(RG_IN("x", INPUT, ANY), RG_OPTIONAL("h", INPUT, ANY), RG_OPTIONAL("c", INPUT, ANY),
            RG_IN("w", WEIGHT, ANY), RG_OPTIONAL("b", BIAS, ANY), RG_OPTIONAL("wx", WEIGHT, ANY),
            RG_OPTIONAL("bx", BIAS, ANY)),
  .result = { "y", "h", "c" },
  RG_ARGS(rg_recurrent_args, recurrent_args),
  .infer = infer,
  .expand = expand,
};

rg_status rg_recurrent(const rg_tensor *x, const rg_tensor *h, const rg_tensor *c,
                       const rg_tensor *wx, const rg_tensor *bx, const rg_tensor *w,
                       const rg_tensor *b, int32_t cell_kind, int32_t backwards, rg_tensor **y,
                       rg_tensor **h_last, rg_tensor **c_last)
{
  const rg_tensor *const in[N_IN] = {
    [X] = x, [H] = h, [C] = c, [W] = w, [B] = b, [WX] = wx, [BX] = bx
  };
  rg_tensor *out[RG_MAX_OUT] = { NULL };

  if (y == NULL || h_last == NULL || (c_last == NULL && cell_kind == RG_CELL_LSTM)) {
    return rg_fail(RG_EARG, "recurrent: a pointer is NULL");
  }
  RG_TRY(rg_run_body(&rg_op_recurrent, in, N_IN,
                     &(rg_recurrent_args){ .cell = cell_kind, .backwards = backwards }, out));
  *y = out[0];
  *h_last = out[1];
  if (cell_kind == RG_CELL_LSTM) {
    *c_last = out[2];
  }
  return RG_OK;
}

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

static rg_value recurrent(rg_formula *f, const cell *own, rg_value h)
{
  RG_F_STEP(rg_linear(h, own->w, own->b, RG_ACT_NONE, &out));
}

/* Gates first .. first + count - 1 of z [batch x gates n]. */
static rg_value gates(rg_formula *f, rg_value z, const cell *own, int64_t first, int64_t count)
{
  return rg_f_narrow(f, z, 1, first * own->n, count * own->n);
}

/* Gates i, f, g, o: c' = f c + i g, h' = o tanh(c'). */
static void lstm(rg_formula *f, const cell *own, rg_value zx, rg_value *h, rg_value *c)
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
static void gru(rg_formula *f, const cell *own, rg_value zx, rg_value *h)
{
  rg_value zh = recurrent(f, own, *h);
  rg_value both =
      rg_f_unary(f, rg_sigmoid, rg_f_add(f, gates(f, zx, own, 0, 2), gates(f, zh, own, 0, 2)));
  rg_value reset = rg_f_mul(f, gates(f, both, own, 0, 1), gates(f, zh, own, 2, 1));
  rg_value new = rg_f_unary(f, rg_tanh, rg_f_add(f, gates(f, zx, own, 2, 1), reset));

  *h = rg_f_add(f, new, rg_f_mul(f, gates(f, both, own, 1, 1), rg_f_sub(f, *h, new)));
}

/* -- A sequence ---------------------------------------------------------------------- */

/* The state and the outputs, a reference each. */
typedef struct run {
  rg_tensor *h;
  rg_tensor *c;
  rg_tensor **y;
} run;

static void replace(rg_tensor **held, rg_value x)
{
  rg_tensor *before = *held;

  *held = rg_f_hold(x);
  rg_tensor_release(before);
}

/* From the state before to that after place `at`, whose output is kept with an axis for it. */
static rg_status place(const cell *own, const rg_tensor *zx, int64_t at, run *r)
{
  rg_formula f = { .what = "recurrent" };
  rg_value h = r->h;
  rg_value c = r->c;
  rg_value z = rg_f_select(&f, zx, 1, at);

  if (own->kind == RG_CELL_LSTM) {
    lstm(&f, own, z, &h, &c);
  } else {
    gru(&f, own, z, &h);
  }
  if (f.status == RG_OK) {
    rg_f_note(&f, rg_unsqueeze(h, 1, &r->y[at]));
  }
  if (f.status == RG_OK) {
    replace(&r->h, h);
    replace(&r->c, c);
  }
  return rg_f_end(&f);
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

static rg_status check(const rg_tensor *zx, const rg_tensor *h, const rg_tensor *c,
                       const rg_tensor *w, int32_t kind)
{
  char a[128];
  char b[128];
  int64_t n_gates = kind == RG_CELL_LSTM ? 4 : 3;

  if (kind < 0 || kind >= RG_CELL_COUNT) {
    return rg_fail(RG_EARG, "recurrent: there is no cell %d", kind);
  }
  RG_TRY(rg_tensor_check(zx, "recurrent"));
  RG_TRY(rg_tensor_check(w, "recurrent"));
  if (zx->_ndim != 3 || zx->_shape[1] < 1 || w->_ndim != 2 || zx->_shape[2] != w->_shape[0] ||
      w->_shape[0] != n_gates * w->_shape[1]) {
    return rg_fail(RG_ESHAPE,
                   "recurrent: zx is %s and w %s, wanted [batch,length,%lldn], [%lldn,n]",
                   rg_tensor_text(zx, a, sizeof(a)), rg_tensor_text(w, b, sizeof(b)),
                   (long long)n_gates, (long long)n_gates);
  }
  int64_t state[] = { zx->_shape[0], w->_shape[1] };

  RG_TRY(check_state("h", h, state));
  return check_state("c", c, state);
}

rg_status rg_recurrent(const rg_tensor *zx, const rg_tensor *h, const rg_tensor *c,
                       const rg_tensor *w, const rg_tensor *b, int32_t cell_kind, int32_t backwards,
                       rg_tensor **y, rg_tensor **h_last, rg_tensor **c_last)
{
  run r = { 0 };
  rg_status status;

  if (y == NULL || h_last == NULL || (c_last == NULL && cell_kind == RG_CELL_LSTM)) {
    return rg_fail(RG_EARG, "recurrent: a pointer is NULL");
  }
  RG_TRY(check(zx, h, c, w, cell_kind));
  cell own = { .w = w, .b = b, .n = w->_shape[1], .kind = cell_kind };
  int32_t length = (int32_t)rg_min_i64(zx->_shape[1], INT32_MAX);

  if (zx->_shape[1] > length) {
    return rg_fail(RG_ESHAPE, "recurrent: %lld places", (long long)zx->_shape[1]);
  }
  r.y = rg_host_zeroed((size_t)length * sizeof(rg_tensor *));
  if (r.y == NULL) {
    return rg_fail(RG_ENOMEM, "recurrent: no memory for a list of %d places", length);
  }
  status = sequence(&own, zx, h, c, backwards != 0, &r);
  if (status == RG_OK) {
    status = rg_concat((const rg_tensor *const *)r.y, length, 1, y);
  }
  for (int32_t i = 0; i < length; i++) {
    rg_tensor_release(r.y[i]);
  }
  rg_host_free(r.y);
  if (status == RG_OK) {
    *h_last = rg_tensor_retain(r.h);
    if (cell_kind == RG_CELL_LSTM) {
      *c_last = rg_tensor_retain(r.c);
    }
  }
  rg_tensor_release(r.h);
  rg_tensor_release(r.c);
  return status;
}

/* SPDX-License-Identifier: MIT */
/*
** Attention and its gradients in f64: a query at a time, without tiles.  Its use is to check; what
** is fast is in attention.c.
*/
#include <math.h>
#include <string.h>

#include "cpu/attention.h"
#include "cpu/block.h"
#include "op/draw.h"

static const double *element(rg_matrix x, int64_t i, int64_t j)
{
  return (const double *)x.data + i * x.row + j * x.col;
}

static void add(rg_matrix x, int64_t i, int64_t j, double value)
{
  ((double *)x.data)[i * x.row + j * x.col] += value;
}

static double dot(rg_matrix a, int64_t i, rg_matrix b, int64_t j, int64_t n)
{
  double sum = 0;

  for (int64_t l = 0; l < n; l++) {
    sum += *element(a, i, l) * *element(b, j, l);
  }
  return sum;
}

static double score(const rg_att *w, rg_matrix q, int64_t i, rg_matrix k, int64_t j)
{
  return rg_att_sees(w, i, j) ? w->args.scale * dot(q, i, k, j, w->s.d) : -INFINITY;
}

/* What dropout multiplies a weight by: 0, or more than 1. */
static double kept(const rg_att *w, int64_t head, int64_t i, int64_t j)
{
  uint32_t number;

  if (w->args.p == 0) {
    return 1;
  }
  rg_att_numbers(w, head, i, j, &number, 1);
  return rg_draw_keeps(number, w->args.p) ? rg_att_grown(w) : 0;
}

static void clear(rg_matrix x, int64_t rows, int64_t cols)
{
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < cols; j++) {
      ((double *)x.data)[i * x.row + j * x.col] = 0;
    }
  }
}

/* -- Forward ---------------------------------------------------------------------------------- */

typedef struct work {
  const rg_att *att;
  rg_tensor *const *out;
} work;

/* Scores twice: once for their sum, once to weigh the values. */
static void query(const rg_att *w, int64_t head, rg_matrix in[3], rg_matrix y, int64_t i,
                  double *lse)
{
  double most = -INFINITY;
  double sum = 0;

  for (int64_t j = 0; j < w->s.m; j++) {
    double x = score(w, in[RG_ATT_Q], i, in[RG_ATT_K], j);

    most = x > most ? x : most;
  }
  most = most > -INFINITY ? most : 0;
  for (int64_t j = 0; j < w->s.m; j++) {
    sum += exp(score(w, in[RG_ATT_Q], i, in[RG_ATT_K], j) - most);
  }
  *lse = sum == 0 ? INFINITY : most + log(sum);
  for (int64_t j = 0; j < w->s.m; j++) {
    double weight = exp(score(w, in[RG_ATT_Q], i, in[RG_ATT_K], j) - *lse) * kept(w, head, i, j);

    for (int64_t l = 0; l < w->s.e; l++) {
      add(y, i, l, weight * *element(in[RG_ATT_V], j, l));
    }
  }
}

static void matrices(const rg_att *w, int64_t head, rg_matrix in[3])
{
  for (int32_t i = RG_ATT_Q; i <= RG_ATT_V; i++) {
    in[i] = rg_matrix_of(w->call->in[i], head);
  }
}

static bool forward_job(void *job, int64_t begin, int64_t end)
{
  const work *w = job;
  const rg_att *att = w->att;
  rg_matrix in[3];

  for (int64_t head = begin; head < end; head++) {
    rg_matrix y = rg_matrix_of(w->out[0], head);

    matrices(att, head, in);
    clear(y, att->s.n, att->s.e);
    for (int64_t i = 0; i < att->s.n; i++) {
      double lse;

      if (rg_interrupt_pending()) {
        return false;
      }
      query(att, head, in, y, i, &lse);
      if (att->call->n_out > 1) {
        ((double *)w->out[1]->_data)[head * att->s.n + i] = lse;
      }
    }
  }
  return true;
}

rg_status rg_attention_direct(const rg_att *w, rg_tensor *const *out)
{
  work job = { w, out };
  double operations = (double)w->s.heads * (double)w->s.n * (double)w->s.m;

  return rg_parallel(rg_threads_for(operations * (double)(3 * w->s.d + w->s.e)), w->s.heads,
                     forward_job, &job);
}

/* -- Back ------------------------------------------------------------------------------------- */

static bool back_job(void *job, int64_t begin, int64_t end)
{
  const work *w = job;
  const rg_att *att = w->att;
  const rg_tensor *lse = att->call->in[RG_ATT_LSE];
  rg_matrix in[3];
  rg_matrix d[3];
  rg_walk walk;
  rg_tile one;

  rg_walk_init(&walk, &lse, 1, lse->_shape, lse->_ndim);
  for (int64_t head = begin; head < end; head++) {
    rg_matrix y = rg_matrix_of(att->call->in[RG_ATT_Y], head);
    rg_matrix dy = rg_matrix_of(att->call->in[RG_ATT_DY], head);

    matrices(att, head, in);
    for (int32_t i = 0; i < 3; i++) {
      d[i] = rg_matrix_of(w->out[i], head);
      clear(d[i], i == RG_ATT_Q ? att->s.n : att->s.m, i == RG_ATT_V ? att->s.e : att->s.d);
    }
    for (int64_t i = 0; i < att->s.n; i++) {
      double whole = dot(dy, i, y, i, att->s.e);
      double sum = *(const double *)rg_tile_load(&walk, 0, head * att->s.n + i, 1, RG_F64, &one);

      if (rg_interrupt_pending()) {
        return false;
      }
      for (int64_t j = 0; j < att->s.m; j++) {
        double weight = exp(score(att, in[RG_ATT_Q], i, in[RG_ATT_K], j) - sum);
        double keep = kept(att, head, i, j);
        double t = keep * dot(dy, i, in[RG_ATT_V], j, att->s.e);
        double z = att->args.scale * weight * (t - whole);

        for (int64_t l = 0; l < att->s.e; l++) {
          add(d[RG_ATT_V], j, l, keep * weight * *element(dy, i, l));
        }
        for (int64_t l = 0; l < att->s.d; l++) {
          add(d[RG_ATT_Q], i, l, z * *element(in[RG_ATT_K], j, l));
          add(d[RG_ATT_K], j, l, z * *element(in[RG_ATT_Q], i, l));
        }
      }
    }
  }
  return true;
}

rg_status rg_attention_back_direct(const rg_att *w, rg_tensor *const *out)
{
  work job = { w, out };
  double operations = (double)w->s.heads * (double)w->s.n * (double)w->s.m;

  return rg_parallel(rg_threads_for(operations * (double)(6 * w->s.d + 4 * w->s.e)), w->s.heads,
                     back_job, &job);
}

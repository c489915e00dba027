/* SPDX-License-Identifier: MIT */
/*
** A product prepared and run: the way chosen, the weight packed, scratch taken.  An eager call
** does it each time; a plan's step keeps what is ready in its memo, so that a replay decides
** nothing.
*/
#ifndef RIDGE_CPU_PATH_H
#define RIDGE_CPU_PATH_H

#include "cpu/choice.h"
#include "cpu/dnnl.h"
#include "cpu/gemm.h"
#include "ridge/choice.h"

typedef struct rg_ready rg_ready;
struct rg_ready {
  rg_product p; /* filled by the caller; data pointers and draw may change between runs */
  rg_status (*go)(rg_ready *r);
  rg_status (*measured)(rg_ready *r); /* what go asks where measuring chose the path (choice.c) */
  const char *path;                   /* its name */
  int32_t taken;                      /* RG_GEMM_... */
  int32_t by;                         /* what chose it: RG_BY_... */
  int32_t isa;                        /* when it was chosen */
  rg_gemm gemm;
  bool stays;          /* set by the caller: kept in a memo and run again */
  int32_t worker;      /* set by the caller: number among products that run at the same time */
  rg_dnnl *dnnl;       /* oneDNN's primitive; one of its own if it stays */
  const void *packed;  /* oneDNN's form of a weight that is kept */
  bool plain_epilogue; /* oneDNN does the epilogue as well */
  uint64_t version;    /* of the weight's storage when it was packed */
  uint64_t version_fixed;
  rg_block scratch;
  void *a;      /* in scratch: p.a converted, or NULL if it is read where it lies */
  void *b;      /* in scratch: p.b packed for all threads, or NULL */
  int64_t rows; /* that oneDNN gets at a time */
  int32_t format;
};

/* Choose the way and take what it needs. */
rg_status rg_product_prepare(rg_ready *r) RG_CHECK;

/* Behind what stops at Ctrl-C wherever it is: RG_EINTR where it may not have come to its end. */
rg_status rg_product_if_whole(void) RG_CHECK;

/* Is it one row times a matrix that is best read in place? */
bool rg_product_takes_row(const rg_product *p);

/* The same by one path, RG_GEMM_...; and the one that "auto" takes where nothing was measured. */
rg_status rg_product_prepare_path(rg_ready *r, int32_t path) RG_CHECK;
int32_t rg_product_default(const rg_product *p);

/* Is its time a sum of terms?  Types that agree, factors that are contiguous where kernels read
** along them, sizes that libraries take. */
bool rg_path_is_plain(const rg_product *p);

/* Nanoseconds it is expected to take by a path. */
double rg_path_expected(const double ns[RG_PATH_TERMS], const rg_product *p, int32_t path);

/* The path by what was fitted on this machine; the standard one where nothing was. */
int32_t rg_product_fitted(const rg_product *p, int32_t standard);
void rg_path_costs_forget(void);

/* The path that a prepared product takes, with the times that are known of it now, and what chose
** it: RG_BY_...; RG_BY_NONE where there is nothing to compute. */
int32_t rg_product_chosen(const rg_ready *r, rg_choice *out);

/* By what was measured (choice.c), where rg_choices_matter says that there is anything. */
rg_status rg_product_prepare_chosen(rg_ready *r) RG_CHECK;

/* Ways in files of their own: oneDNN's, one row, products with a part of fixed signs. */
rg_status rg_product_prepare_row(rg_ready *r) RG_CHECK;
rg_status rg_product_prepare_dnnl(rg_ready *r) RG_CHECK;
rg_status rg_product_prepare_signs(rg_ready *r) RG_CHECK;

/* May products have epilogues that add?  Where no library is forced. */
bool rg_product_adds(void);

/* Do own kernels multiply by fixed signs, for results of this type? */
bool rg_product_takes_signs(int32_t dtype);

/* Is this kept matrix one of fixed signs?  Looked at once per version. */
rg_status rg_product_is_signs(const rg_weight *w, bool *out) RG_CHECK;

/* The weight's packed form as it is now: what a run has to check. */
rg_status rg_product_refresh(rg_ready *r) RG_CHECK;

/* Run it. */
static inline rg_status rg_product_go(rg_ready *r)
{
  rg_waits_for(r->p.n_threads);
  return r->go(r);
}

/* Give scratch back.  In a plan's arena its address stays good for the step's replays. */
void rg_product_done(rg_ready *r);

/* Release everything; after the last run. */
void rg_product_end(rg_ready *r);

#endif

/* SPDX-License-Identifier: MIT */
/*
** Weights in oneDNN's packed form, kept with the weight until it is written to.
*/
#ifndef RIDGE_CPU_PACKED_H
#define RIDGE_CPU_PACKED_H

#include "cpu/dnnl.h"
#include "tensor/tensor.h"

/* Bring the weight into packed memory. */
typedef rg_status rg_packed_fill(void *context, const rg_dnnl *dnnl, void *packed);

/*
** The packed form of what the key says, made where there is none for the weight's version.
**
** key      key[0] is filled here with the primitive's packing number
** data     out: good as long as the storage lives and is not written to
** version  out: of the contents it was made from
*/
rg_status rg_packed_get(rg_storage *storage, uint64_t key[4], const rg_dnnl *dnnl,
                        rg_packed_fill *fill, void *context, const void **data,
                        uint64_t *version) RG_CHECK;

#endif

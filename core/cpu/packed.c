/* SPDX-License-Identifier: MIT */
/*
** Weights in oneDNN's packed form.
*/
#include <string.h>

#include "cpu/packed.h"

typedef struct kept {
  rg_derived derived;
  rg_block block;
} kept;

static void packed_release(rg_derived *derived)
{
  kept *self = (kept *)derived;

  if (self->block.data != NULL) {
    rg_block_free(&self->block);
  }
  rg_host_free(self);
}

rg_status rg_packed_get(rg_storage *storage, uint64_t key[4], const rg_dnnl *dnnl,
                        rg_packed_fill *fill, void *context, const void **data, uint64_t *version)
{
  key[0] = rg_dnnl_packing(dnnl);
  kept *self = (kept *)rg_derived_find(storage, key);

  if (self == NULL) {
    rg_status status;

    self = rg_host_zeroed(sizeof(*self));
    if (self == NULL) {
      return rg_fail(RG_ENOMEM, "no memory to describe a packed weight");
    }
    memcpy(self->derived.key, key, sizeof(self->derived.key));
    self->derived.version = rg_storage_version(storage);
    self->derived.release = packed_release;
    status = rg_block_alloc_shared(RG_CPU, rg_dnnl_packed_bytes(dnnl), &self->block);
    if (status == RG_OK) {
      self->derived.bytes = self->block.bytes;
      status = fill(context, dnnl, self->block.data);
    }
    if (status != RG_OK) {
      packed_release(&self->derived);
      return status;
    }
    rg_derived_keep(storage, &self->derived);
  }
  *data = self->block.data;
  *version = self->derived.version;
  return RG_OK;
}

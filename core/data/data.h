/* SPDX-License-Identifier: MIT */
/*
** What the files here know of each other.
*/
#ifndef RIDGE_DATA_DATA_H
#define RIDGE_DATA_DATA_H

#include "ridge/data.h"

/* Has a mapped file still so many bytes?  RG_EFORMAT, RG_EIO: how it goes on behind "row 3 is". */
rg_status rg_map_check(int32_t file, int64_t bytes) RG_CHECK;

/* n numbers of a row of f, at any address, as f32 times scale plus shift. */
void rg_field_convert(const rg_field *f, const char *from, float *to);

/* Does rg_field_convert know the type? */
bool rg_field_turns(int32_t dtype);

/* Is a row another in a batch than it is stored? */
bool rg_field_converts(const rg_field *f);

#endif

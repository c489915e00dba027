-- SPDX-License-Identifier: MIT
--- Bytes that a net really holds: what is stored, copies that were packed for products, and what a
--- plan of it works in.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'

local M = {}

--- Bytes of a net that was called, so that what is packed at the first call is there.
---@param net table
---@param plan table|nil of it
---@return table bytes stored, packed, scratch, mb (stored and packed)
function M.bytes(net, plan)
  local stored, packed, seen = 0, 0, {}
  for _, p in ipairs(net:parameters()) do
    local key = tonumber(ffi.cast('intptr_t', ffi.cast('void *', p.tensor._t._storage)))
    if not seen[key] then
      seen[key] = true
      stored = stored + p.tensor.bytes
      packed = packed + tonumber(C.rg_tensor_packed_bytes(p.tensor._t))
    end
  end
  return { stored = stored, packed = packed, scratch = plan and plan:facts().buffer_bytes or 0,
    mb = (stored + packed) / 2 ^ 20 }
end

return M

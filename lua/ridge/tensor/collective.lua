-- SPDX-License-Identifier: MIT
--- Collectives: what replicas of one net, in one process, do together.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local schema = require 'ridge.tensor.schema'
local settings = require 'ridge.tensor.settings'

local M = {}

local SETTINGS = settings.of(schema.of 'all_reduce')
local MOST = C.RG_MAX_REPLICAS

local pointers_t, struct_t = ffi.typeof 'rg_tensor *[?]', ffi.typeof 'rg_all_reduce_options'

--- All-reduce: every tensor of a list becomes the sum of all, added up in the order of the list,
--- with the same bits in each. Those of other devices are copied to that of the first, and back.
---
--- It writes into its tensors, gradients for example, and no gradient flows through it. Behind the
--- hook of the last replica's leaf (tensor:on_gradient) it runs while the rest of the backward pass
--- is still to come.
---@param list table tensors of one shape and float type, 16 at most
---@param opts table|nil {mean = false}: the mean
---@return table list
-- >> local a, b = ridge.ones(2), ridge.full(3, 2)
-- >> ridge.all_reduce_({a, b}, {mean = true})
-- >> return b
function M.all_reduce_(list, opts)
  opts = options.check(SETTINGS.spec, opts, 'all_reduce_')
  if type(list) ~= 'table' then
    blame.raise('all_reduce_: a list of tensors is expected, got ' .. blame.show(list))
  end
  local n = #list
  if n > MOST then
    blame.raise(('all_reduce_: %d tensors; 1 to %d are possible'):format(n, MOST))
  end
  -- by number: a list with a hole is longer than what ipairs sees of it
  for i = 1, n do ref.need(list[i], 'all_reduce_: tensor ' .. i) end
  call.settle()
  local struct = SETTINGS.write(struct_t(), opts, 'all_reduce_')
  local pointers = pointers_t(math.max(1, n))
  for i = 1, n do pointers[i - 1] = list[i]._t end
  call.check(C.rg_all_reduce_(pointers, n, struct), 'all_reduce_')
  return list
end

return M

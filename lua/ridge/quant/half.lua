-- SPDX-License-Identifier: MIT
--- Nets with weights in half the bytes.

local blame = require 'ridge.blame'
local original = require('ridge.guard').original
local nets = require 'ridge.quant.nets'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local report = require 'ridge.quant.report'

local M = {}

local SPEC = { dtype = { 'string', default = 'bf16', choices = { 'bf16', 'f16' } } }

local FLOATS = { f64 = true, f32 = true, bf16 = true, f16 = true }

--- Let a net take floats of any type: they become its own.
---@param net table
---@param dtype string
---@return table net
function M.take_floats(net, dtype)
  local forward = original(getmetatable(net).forward)
  rawset(net, 'forward', function(self, ...)
    local given = { ... }
    for i = 1, select('#', ...) do
      local x = given[i]
      if ref.is(x) and FLOATS[x.dtype] then given[i] = x:to(dtype) end
    end
    return forward(self, unpack(given, 1, select('#', ...)))
  end)
  return net
end

-- Numbers that the type does not reach would become infinite.
local function refuse_infinite(net, made, dtype)
  local after = made:parameters()
  for i, p in ipairs(net:parameters()) do
    local x = p.tensor:detach()
    if FLOATS[x.dtype] and x:isfinite():logical_and(after[i].tensor:isfinite():logical_not())
      :any():item() == 1 then
      blame.raise(('quant.half: %s has numbers that become infinite in %s%s'):format(p.name, dtype,
        dtype == 'f16' and ', whose largest is 65504; bf16 has them' or ''), 'EARG')
    end
  end
end

--- The type that a layer of prune.compact stays in, and why; nothing of other layers.
---@param module table
---@param dtype string that the net is to be in
---@return string|nil dtype
---@return string|nil why it is not the type that was asked for
function M.kept_in(module, dtype)
  if getmetatable(module).__name ~= 'prune.SparseLinear' then return nil end
  local kept = module.values.dtype
  if kept == dtype then return kept end
  return kept, module.pattern and ("its weights in %s stay %s; what prune.compact makes of "
    .. "net:to 'bf16' has them in bf16"):format(module.pattern, kept)
    or 'its sparse weights stay f32, which their products are in'
end

--- A copy of a net with its numbers in bf16 or f16; inputs of other float types become that.
--- The net stays as it was; the copy is in evaluation mode.
---@param net table module in evaluation mode
---@param dtype string|nil 'bf16' when left out, or 'f16'
---@return table q
-- >> return ridge.quant.half(ridge.nn.Linear(8, 4):eval(), 'f16').weight.dtype
function M.half(net, dtype)
  dtype = options.check(SPEC, { dtype = dtype }, 'quant.half').dtype
  nets.need(net, 'quant.half')
  local made, rows = nets.copy(net):to(dtype), {}
  refuse_infinite(net, made, dtype)
  for _, layer in ipairs(nets.layers(net)) do
    local kept, why = M.kept_in(layer.module, dtype)
    rows[#rows + 1] = { name = layer.name, class = layer.class, kind = kept or dtype, why = why }
  end
  local q = report.attach(M.take_floats(made, dtype), 'half', rows)
  q._quant.dtype = dtype
  return q
end

return M

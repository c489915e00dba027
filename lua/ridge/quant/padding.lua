-- SPDX-License-Identifier: MIT
--- Zeros behind the inputs of a layer, so that whole groups come out.

local blame = require 'ridge.blame'

local M = {}

--- How many a layer needs, or an error where none are allowed.
---@param layer table name, module
---@param opts table group, pad
---@param what string the function's name, for errors
---@return integer
function M.of(layer, opts, what)
  local n = layer.module.n_in
  local rest = -n % opts.group
  if rest > 0 and not opts.pad then
    blame.raise(('%s: %s has %d inputs, which do not fall into groups of %d: pad = true adds %d '
      .. 'zeros, or name it in skip'):format(what, layer.name, n, opts.group, rest), 'ESHAPE')
  end
  return rest
end

--- Put so many zeros behind one axis.
---@param x Tensor
---@param by integer
---@param axis integer
---@return Tensor
function M.behind(x, by, axis)
  if by == 0 then return x end
  local widths = {}
  for i = 1, x.ndim do widths[i] = { 0, i == axis and by or 0 } end
  return x:pad(widths)
end

return M

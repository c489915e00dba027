-- SPDX-License-Identifier: MIT
--- Layers for images: convolution, pooling, and the step from images to rows.

local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local blame = require 'ridge.blame'
local ref = require 'ridge.ffi.ref'
local class = require('ridge.class').class
local image = require 'ridge.tensor.image'
local base = require 'ridge.nn.layer'
local options = require 'ridge.options'
local Module = require 'ridge.nn.module'

local M = {}

-- -- Convolution --------------------------------------------------------------------------------

local Conv2d = class('nn.Conv2d', base.Layer)
local CONV = { bias = base.BIAS, seed = base.SEED, activation = base.ACTIVATION }
for name, rule in pairs(image.CONV) do CONV[name] = rule end

--- A convolution, y = act(conv2d(x, w) + b); both begin uniform in +-1/sqrt(c_in / groups * rows *
--- columns).
---@param c_in number channels in
---@param c_out number channels out
---@param kernel number|table rows and columns: one number, or {rows, columns}
---@param opts table|nil {stride = 1, padding = 0, dilation = 1, groups = 1, layout = 'nchw',
---  bias = true, seed =, activation = 'none'}
-- >> ridge.nn.Conv2d(1, 6, 5, {padding = 2})(ridge.ones(2, 1, 28, 28)).shape
function Conv2d:init(c_in, c_out, kernel, opts)
  base.Layer.init(self)
  base.sizes('nn.Conv2d', c_in, c_out)
  opts = options.check(CONV, opts, 'nn.Conv2d')
  local rows, columns = image.pair(kernel, 'nn.Conv2d', 'the kernel', 1)
  self.options = image.conv_options(opts, rows, columns, 'nn.Conv2d')
  if c_in % opts.groups ~= 0 or c_out % opts.groups ~= 0 then
    blame.raise(('nn.Conv2d: %d channels in and %d out do not fall into %d groups'):format(c_in,
      c_out, opts.groups), 'EARG')
  end
  self.options.act = base.ACT[opts.activation]
  self.n_in, self.n_out, self.activation = c_in, c_out, opts.activation
  self.kernel, self.layout = { rows, columns }, opts.layout
  local draws, bound = base.draws(base.seed_of(opts.seed)),
    1 / math.sqrt(c_in / opts.groups * rows * columns)
  self:param('weight', draws:uniform(bound, c_out, c_in / opts.groups, rows, columns))
  self:may('bias', opts.bias and draws:uniform(bound, c_out))
  self:settle()
end

--- Convolve.
---@param x Tensor [n x c_in x rows x columns], channels last with layout = 'nhwc'
---@return Tensor
function Conv2d:forward(x)
  if not ref.is(x) then ref.need(x, 'nn.Conv2d') end
  call.settle()
  local tensors = self._tensors
  local weight, bias = tensors.weight or self.weight, tensors.bias
  if not bias and self._wrapped then bias = self.bias end
  local b = nil
  if bias then b = bias._t end
  local st = C.rg_conv2d(x._t, weight._t, b, self.options, ref.slot)
  if st ~= 0 then
    ref.need(x, 'nn.Conv2d')
    call.again(st, C.rg_conv2d, x._t, weight._t, b, self.options, ref.slot)
  end
  return ref.wrap(ref.slot[0])
end

function Conv2d:__tostring()
  local f = self:facts()
  return ('nn.Conv2d(%d -> %d, %dx%d%s, %s, %d parameters)'):format(f.n_in, f.n_out, self.kernel[1],
    self.kernel[2], f.activation ~= 'none' and ', ' .. f.activation or '', f.dtype,
    f.trainable_count)
end

M.Conv2d = Conv2d

-- -- Pooling ------------------------------------------------------------------------------------

for name, method in pairs { MaxPool2d = 'max_pool2d', AvgPool2d = 'avg_pool2d' } do
  local what = 'nn.' .. name
  local Pool = class(what, Module)
  local spec = method == 'avg_pool2d' and image.AVG_POOL or image.POOL

  --- The largest, or the average, of each window.
  function Pool:init(size, opts)
    Module.init(self)
    opts = options.check(spec, opts, what)
    self.options = image.pool_options(size, opts, what)
    self.rows, self.columns = image.pair(size, what, 'the size', 1)
  end

  function Pool:forward(x) return image.pool(x, method, self.options) end

  function Pool:__tostring() return ('%s(%dx%d)'):format(what, self.rows, self.columns) end

  Pool.__doc = ('%s(size, {stride = size, padding = 0}): the %s of each window of an image.')
    :format(name, method == 'avg_pool2d' and 'average' or 'largest')
  M[name] = Pool
end

-- -- Rows ---------------------------------------------------------------------------------------

local Flatten = class('nn.Flatten', Module)

--- All axes but the first as one.
---@param x Tensor [n x ...]
---@return Tensor [n x the rest]
function Flatten.forward(_, x)
  ref.need(x, 'nn.Flatten')
  local t = x._t
  local n = t._ndim > 0 and tonumber(t._shape[0]) or 1
  local rest = 1
  for i = 1, t._ndim - 1 do rest = rest * tonumber(t._shape[i]) end
  return blame.within('nn.Flatten', function() return x:reshape(n, rest) end)
end

Flatten.__doc = 'Flatten(): all axes but the first as one, [n x the rest].'
M.Flatten = Flatten

return M

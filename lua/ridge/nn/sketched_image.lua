-- SPDX-License-Identifier: MIT
--- Convolutions that cost less than full ones: sketched (Panther's SKConv2d) and depthwise
--- separable (Howard et al., MobileNets, 2017).

local C = require 'ridge.ffi.lib'
local base = require 'ridge.nn.layer'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local class = require('ridge.class').class
local conv = require 'ridge.nn.image'
local image = require 'ridge.tensor.image'
local make = require 'ridge.tensor.make'
local options = require 'ridge.options'
local random = require 'ridge.random'
local ref = require 'ridge.ffi.ref'
local Module = require 'ridge.nn.module'
local worlds = require 'ridge.world'

local M = {}

-- -- Sketched -----------------------------------------------------------------------------------

local Sketched = class('nn.SKConv2d', Module)
local SKETCH = {
  num_terms = { 'integer', default = 6, min = 1, doc = 'terms T: 2 T sketches' },
  low_rank = { 'integer', default = 8, min = 1, doc = 'rank R of each' },
  bias = base.BIAS, seed = base.SEED,
  stride = image.CONV.stride, padding = image.CONV.padding,
  warn = { 'boolean', default = true, doc = 'say so when it stores more than a full one' },
}

local function stored(c_in, c_out, rows, columns, k)
  return k * (c_in * rows * columns + c_out), c_in * c_out * rows * columns
end

-- The signs, [2 T R x c_out], as numbers of absolute value 1 / sqrt(R).
local function signs(k, c_out, low_rank, seed)
  local u = make.empty(k, c_out)
  local generator = random.generator(seed)
  call.check(C.rg_signs_(u._t, low_rank ^ -0.5, random.pointer(generator, 'nn.SKConv2d')))
  return u
end

-- Sketch a kernel [c_out x c_in x rows x columns].
local function begin(self, kernel, bias, opts)
  local c_out, c_in, rows, columns = unpack(kernel:size())
  local k = 2 * opts.num_terms * opts.low_rank
  local u = signs(k, c_out, opts.low_rank, base.seed_of(opts.seed)):to(kernel.device)
  self.c_in, self.c_out, self.kernel, self.k = c_in, c_out, { rows, columns }, k
  self.num_terms, self.low_rank = opts.num_terms, opts.low_rank
  self.options = image.conv_options(options.check(image.CONV, { stride = opts.stride,
    padding = opts.padding }, 'nn.SKConv2d'), rows, columns, 'nn.SKConv2d')
  local flat = kernel:detach():to('f32'):reshape(c_out, c_in * rows * columns)
  self:param('S1s', u:matmul(flat):reshape(k, c_in, rows, columns))
  if bias then self:param('bias', bias:detach():clone()) else self:without 'bias' end
  self:buffer('U1s', u)
  local mine, full = stored(c_in, c_out, rows, columns, k)
  if opts.warn and mine > full and worlds.speaks() then
    local where = blame.where()
    io.stderr:write(('%snn.SKConv2d: 2 T R = %d stores more than the full convolution; below %.0f '
      .. 'it stores less\n'):format(where and where .. ': ' or '', k, full / (mine / k)))
  end
end

--- A sketched convolution: a convolution into 2 T R channels, whose weight is trained, and fixed
--- random signs from there to the channels out, y = 1/(2 T) U' conv2d(x, S) + b.
---@param c_in number channels in
---@param c_out number channels out
---@param kernel number|table rows and columns
---@param opts table|nil {num_terms = 6, low_rank = 8, stride = 1, padding = 0, bias = true, seed =,
---  warn = true}
-- >> ridge.nn.SKConv2d(8, 16, 3, {num_terms = 1, low_rank = 2, seed = 1})(ridge.ones(1, 8, 5, 5))
function Sketched:init(c_in, c_out, kernel, opts)
  Module.init(self)
  opts = options.check(SKETCH, opts, 'nn.SKConv2d')
  local dense = conv.Conv2d(c_in, c_out, kernel, { bias = opts.bias, seed = opts.seed })
  begin(self, dense.weight, dense.bias, opts)
end

--- The sketch of a convolution that is there.
---@param dense table nn.Conv2d without groups and dilation
---@param opts table|nil as for nn.SKConv2d; stride and padding are to be given again
---@return table nn.SKConv2d
function Sketched.from(dense, opts)
  opts = options.check(SKETCH, opts, 'nn.SKConv2d.from')
  local weight = type(dense) == 'table' and dense.weight
  if not weight or not ref.is(weight) or #weight:size() ~= 4 then
    blame.raise('nn.SKConv2d.from: a convolution is expected, got ' .. blame.show(dense))
  end
  if weight:size(2) ~= dense:facts().n_in then
    blame.raise('nn.SKConv2d.from: the convolution has groups, which a sketch has not')
  end
  local self = setmetatable({}, Sketched)
  Module.init(self)
  self.training = dense.training
  begin(self, weight, opts.bias and dense.bias or nil, opts)
  return self
end

--- The kernel that the sketch stands for, [c_out x c_in x rows x columns].
---@return Tensor
function Sketched:effective_weight()
  local flat = self.S1s:detach():reshape(self.k, self.c_in * self.kernel[1] * self.kernel[2])
  return (self.U1s:t():matmul(flat) * (0.5 / self.num_terms)):reshape(self.c_out, self.c_in,
    self.kernel[1], self.kernel[2])
end

--- Convolve.
---@param x Tensor [n x c_in x rows x columns]
---@return Tensor [n x c_out x ...]
function Sketched:forward(x)
  ref.need(x, 'nn.SKConv2d')
  call.settle()
  local bias = call.pointer(self.bias)
  call.run('nn.SKConv2d', C.rg_sketched_conv2d, x._t, self.S1s._t, self.U1s._t, bias,
    self.num_terms, self.options, ref.slot)
  return ref.wrap(ref.slot[0])
end

function Sketched:__tostring()
  return ('nn.SKConv2d(%d -> %d, %dx%d, num_terms %d, low_rank %d, %d parameters)'):format(
    self.c_in, self.c_out, self.kernel[1], self.kernel[2], self.num_terms, self.low_rank,
    (self:num_parameters()))
end

M.SKConv2d = Sketched

-- -- Depthwise separable ------------------------------------------------------------------------

local Separable = class('nn.SeparableConv2d', Module)
local SEPARABLE = { bias = base.BIAS, seed = base.SEED, stride = image.CONV.stride,
  padding = image.CONV.padding, dilation = image.CONV.dilation, activation = base.ACTIVATION }

--- A convolution of each channel by itself, then one of 1 x 1 that mixes them.
---@param c_in number channels in
---@param c_out number channels out
---@param kernel number|table rows and columns
---@param opts table|nil {stride = 1, padding = 0, dilation = 1, bias = true, seed =,
---  activation = 'none'}; the bias is the second one's
-- >> ridge.nn.SeparableConv2d(128, 256, 3, {bias = false}):num_parameters()
function Separable:init(c_in, c_out, kernel, opts)
  Module.init(self)
  opts = options.check(SEPARABLE, opts, 'nn.SeparableConv2d')
  self.depthwise = self:child('depthwise', conv.Conv2d(c_in, c_in, kernel, { groups = c_in,
    bias = false, stride = opts.stride, padding = opts.padding, dilation = opts.dilation,
    seed = opts.seed }))
  self.pointwise = self:child('pointwise', conv.Conv2d(c_in, c_out, 1, { bias = opts.bias,
    seed = opts.seed and opts.seed + 1, activation = opts.activation }))
end

--- Convolve.
---@param x Tensor [n x c_in x rows x columns]
---@return Tensor [n x c_out x ...]
function Separable:forward(x)
  return self.pointwise(self.depthwise(x))
end

M.SeparableConv2d = Separable

return M

-- SPDX-License-Identifier: MIT
--- Transposed convolution as a layer.

local blame = require 'ridge.blame'
local ref = require 'ridge.ffi.ref'
local class = require('ridge.class').class
local image = require 'ridge.tensor.image'
local base = require 'ridge.nn.layer'
local options = require 'ridge.options'
local windows = require 'ridge.tensor.windows'

local M = {}

local ConvTranspose2d = class('nn.ConvTranspose2d', base.Layer)
local SPEC = { seed = base.SEED }
for name, rule in pairs(windows.TRANSPOSED) do SPEC[name] = rule end
SPEC.bias = base.BIAS

--- A transposed convolution, y = x:conv_transpose(w) + b; both begin uniform in +-1/sqrt(c_out /
--- groups * rows * columns).
---@param c_in number channels in
---@param c_out number channels out
---@param kernel number|table rows and columns: one number, or {rows, columns}
---@param opts table|nil {stride = 1, padding = 0, output_padding = 0, dilation = 1, groups = 1,
---  bias = true, seed =}
-- >> ridge.nn.ConvTranspose2d(6, 1, 2, { stride = 2 })(ridge.ones(2, 6, 14, 14)).shape
function ConvTranspose2d:init(c_in, c_out, kernel, opts)
  base.Layer.init(self)
  base.sizes('nn.ConvTranspose2d', c_in, c_out)
  opts = options.check(SPEC, opts, 'nn.ConvTranspose2d')
  local rows, columns = image.pair(kernel, 'nn.ConvTranspose2d', 'the kernel', 1)
  if c_in % opts.groups ~= 0 or c_out % opts.groups ~= 0 then
    blame.raise(('nn.ConvTranspose2d: %d channels in and %d out do not fall into %d groups'):format(
      c_in, c_out, opts.groups), 'EARG')
  end
  windows.check(opts, 'nn.ConvTranspose2d')
  self.options = opts
  self.n_in, self.n_out, self.kernel = c_in, c_out, { rows, columns }
  local draws, bound = base.draws(base.seed_of(opts.seed)),
    1 / math.sqrt(c_out / opts.groups * rows * columns)
  self:param('weight', draws:uniform(bound, c_in, c_out / opts.groups, rows, columns))
  self:may('bias', opts.bias and draws:uniform(bound, c_out))
  self:settle()
end

--- Convolve.
---@param x Tensor [n x c_in x rows x columns]
---@return Tensor [n x c_out x ...]
function ConvTranspose2d:forward(x)
  ref.need(x, 'nn.ConvTranspose2d')
  if x.ndim ~= 4 then
    blame.raise(('nn.ConvTranspose2d: x is %s, wanted 4 axes'):format(x:describe()), 'ESHAPE',
      'nn.ConvTranspose2d')
  end
  return windows.transposed(x, self.weight, self.bias, self.options, 'nn.ConvTranspose2d')
end

function ConvTranspose2d:__tostring()
  local f = self:facts()
  return ('nn.ConvTranspose2d(%d -> %d, %dx%d, %s, %d parameters)'):format(f.n_in, f.n_out,
    self.kernel[1], self.kernel[2], f.dtype, f.trainable_count)
end

M.ConvTranspose2d = ConvTranspose2d

return M

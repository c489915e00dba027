-- SPDX-License-Identifier: MIT
--- What comes into a layer, as its second moments: how much a change of two weights of a row
--- together changes the layer's output.

local in_no_grad = require('ridge.tensor.grad').no_grad

local M = {}

local Moments = {}
Moments.__index = Moments

--- Of inputs with n features.
---@param n integer
---@return table moments
function M.new(n) return setmetatable({ size = n, n = 0 }, Moments) end

--- Take a batch in.
---@param x Tensor [... x n]
function Moments:add(x)
  in_no_grad(function()
    local rows = x:detach():to('f64'):reshape(-1, self.size)
    local product, magnitude = rows:t():matmul(rows), rows:abs():sum(1)
    self.sum = self.sum and self.sum + product or product
    self.magnitude = self.magnitude and self.magnitude + magnitude or magnitude
    self.n = self.n + rows:size(1)
  end)
end

--- The mean of x' x, [n x n] in f64.
---@return Tensor
function Moments:mean() return self.sum / self.n end

--- The mean magnitude of each feature, [n] in f64.
---@return Tensor
function Moments:magnitudes() return self.magnitude / self.n end

--- The mean squared error of a layer's output when its weight is off by so much.
---@param off Tensor [n_out x n]
---@return number
function Moments:loss(off)
  local d = off:to 'f64'
  return (d:matmul(self:mean()) * d):sum():item()
end

return M

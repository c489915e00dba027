-- SPDX-License-Identifier: MIT
--- ONNX's comparisons, logic and choices.

local ridge = require 'ridge'

local M = {}

for name, method in pairs { Equal = 'eq', Less = 'lt', LessOrEqual = 'le', Greater = 'gt',
                            GreaterOrEqual = 'ge' } do
  M[name] = function(_, x, y) return x[method](x, y) end
end

function M.And(_, x, y) return x:minimum(y) end
function M.Or(_, x, y) return x:maximum(y) end
function M.Xor(_, x, y) return x:ne(y) end
function M.Not(_, x) return x:eq(0) end

function M.IsNaN(_, x) return x:ne(x) end

function M.IsInf(n, x)
  local up, down = n:int('detect_positive', 1) == 1, n:int('detect_negative', 1) == 1
  if up and down then return x:abs():eq(math.huge) end
  if up then return x:eq(math.huge) end
  return down and x:eq(-math.huge) or x:ne(x):minimum(x:eq(x))
end

function M.Where(_, c, x, y) return ridge.where(c, x, y) end

return M

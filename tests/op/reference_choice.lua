-- SPDX-License-Identifier: MIT
-- reference_choice: what choosing between tensors means, and answers about numbers (see
-- reference.lua).

return function(M, tools)
  local each, at, broadcast = tools.each, tools.at, tools.broadcast

  --- The second input where the first is not 0, else the third.
  function M.where(inputs)
    local cond, x, y = unpack(inputs)
    local z = M.new(broadcast(cond.shape, broadcast(x.shape, y.shape)), M.promote(x.dtype, y.dtype))
    each(z.shape, function(index)
      z[#z + 1] = M.convert(at(at(cond, index) ~= 0 and x or y, index), z.dtype)
    end)
    return { z }
  end

  local INF = math.huge
  local ANSWERS = {
    logical_not = function(x) return x == 0 end,
    isnan = function(x) return x ~= x end,
    isinf = function(x) return x == INF or x == -INF end,
    isposinf = function(x) return x == INF end,
    isneginf = function(x) return x == -INF end,
    isfinite = function(x) return x == x and math.abs(x) ~= INF end,
  }
  for name, f in pairs(ANSWERS) do
    M[name] = function(inputs)
      local x = inputs[1]
      local y = M.new(x.shape, 'bool')
      for i = 1, M.count(x.shape) do y[i] = f(x[i]) and 1 or 0 end
      return { y }
    end
  end
end

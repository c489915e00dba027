-- SPDX-License-Identifier: MIT
-- reference_train: what operations of training mean, in plain loops over Lua numbers.  See
-- reference.lua for what a tensor is here.  Results carry the magnitude of what was added up.

return function(M) -- M: the rest of the reference
  local function loss_dtype(x) return x.dtype == 'f64' and 'f64' or 'f32' end

  local function rows_of(x)
    local shape = { unpack(x.shape, 1, #x.shape - 1) }
    return shape, x.shape[#x.shape], M.count(shape)
  end

  -- Label, weight and sum of weights as the arguments say; nil: the row does not count.
  local function target(a, row, classes)
    local label = a.labels[row]
    local weight = function(c) return a.weight and a.weight[c + 1] or 1 end
    local sum = 0
    for c = 0, classes - 1 do sum = sum + weight(c) end
    return label ~= (a.ignore or -1) and label or nil, weight, sum
  end

  --- Cross entropy of x [... x C] with a.labels; a.weight, a.smoothing, a.ignore, a.reduction.
  function M.cross_entropy(inputs, a)
    local x = inputs[1]
    local shape, classes, rows = rows_of(x)
    local s, losses, loss, total, size = a.smoothing or 0, {}, 0, 0, 0
    local sizes = {}
    for row = 1, rows do
      local label, weight, sum = target(a, row, classes)
      local m, e = -math.huge, 0
      for c = 1, classes do m = math.max(m, x[(row - 1) * classes + c]) end
      for c = 1, classes do e = e + math.exp(x[(row - 1) * classes + c] - m) end
      local lse = m + math.log(e)
      losses[row], sizes[row] = 0, 0
      if label then
        local score = x[(row - 1) * classes + label + 1]
        losses[row] = (1 - s) * weight(label) * (lse - score)
        sizes[row] = weight(label) * (math.abs(lse) + math.abs(score) + 1)
        total = total + weight(label)
        local drawn = 0
        for c = 0, classes - 1 do
          local v = x[(row - 1) * classes + c + 1]
          drawn = drawn + weight(c) * v
          sizes[row] = sizes[row] + s / classes * weight(c) * (math.abs(lse) + math.abs(v))
        end
        losses[row] = losses[row] + s / classes * (sum * lse - drawn)
      end
      loss, size = loss + losses[row], size + sizes[row]
    end
    local by = (a.reduction or 0) == 0 and total or 1
    local y = M.new((a.reduction or 0) == 2 and shape or {}, loss_dtype(x))
    y.magnitude = {}
    if a.reduction == 2 then
      for row = 1, rows do y[row], y.magnitude[row] = losses[row], sizes[row] end
    else
      y[1], y.magnitude[1] = loss / by, size / by
    end
    return { y }
  end

  --- Its gradient, of dy, x and the rows' log(sum(exp)); a.total.
  function M.cross_entropy_back(inputs, a)
    local dy, x, lse = inputs[1], inputs[2], inputs[3]
    local _, classes, rows = rows_of(x)
    local s = a.smoothing or 0
    local dx = M.new(x.shape, x.dtype)
    dx.magnitude = {}
    for row = 1, rows do
      local label, weight, sum = target(a, row, classes)
      local scale = (a.reduction == 2 and dy[row] or dy[1])
        / ((a.reduction or 0) == 0 and a.total or 1)
      for c = 0, classes - 1 do
        local at = (row - 1) * classes + c + 1
        dx[at], dx.magnitude[at] = 0, 0
        if label then
          local p = math.exp(x[at] - lse[row])
          local grown = (weight(label) * (1 - s) + s / classes * sum) * p
          local taken = s / classes * weight(c) + (c == label and weight(c) * (1 - s) or 0)
          dx[at] = scale * (grown - taken)
          -- the exponential magnifies the rounding of its argument
          local wide = 1 + math.abs(x[at]) + math.abs(lse[row])
          dx.magnitude[at] = math.abs(scale) * (grown * wide + taken)
        end
      end
    end
    return { dx }
  end
end

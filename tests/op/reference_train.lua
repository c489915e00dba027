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
          local more = s / classes * weight(c) * (math.abs(lse) + math.abs(v))
          sizes[row] = sizes[row] + (s > 0 and more or 0)
        end
        losses[row] = losses[row] + (s > 0 and s / classes * (sum * lse - drawn) or 0)
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

  -- -- Steps ------------------------------------------------------------------------------------

  -- The same shape and type, with magnitudes.
  local function like(x, dtype)
    local y = M.new(x.shape, dtype or x.dtype)
    y.magnitude = {}
    return y
  end

  local function put(y, i, value, size)
    y[i] = value
    y.magnitude[i] = math.max(math.abs(value), size or 0)
  end

  -- Parameter, gradient and first state, as they are before the step; the scale not finite: nil.
  local function begin(inputs, a)
    local p, g, m = inputs[1], inputs[2], inputs[3]
    local scale = a.scale or 1
    if scale ~= scale or math.abs(scale) == math.huge then return nil, p, m end
    return scale, p, g, m
  end

  --- Gradient descent: p and b after a step.
  function M.sgd_step(inputs, a)
    local scale, p, g, b = begin(inputs, a)
    if not scale then return { p, g } end
    local out_p, out_b = like(p), like(b)
    for i = 1, M.count(p.shape) do
      local d = scale * g[i] + a.weight_decay * p[i]
      local size = math.abs(scale * g[i]) + math.abs(a.weight_decay * p[i])
      local keep, take = a.momentum, 1 - a.dampening
      if a.count == 0 then keep, take = 0, 1 end
      local now = keep * b[i] + take * d
      size = math.abs(keep * b[i]) + take * size
      if a.momentum == 0 then put(out_b, i, b[i]) else put(out_b, i, now, size) end
      local step = a.nesterov and d + a.momentum * now or now
      put(out_p, i, p[i] - a.rate * step, math.abs(p[i]) + a.rate * 2 * size)
    end
    return { out_p, out_b }
  end

  --- Adam: p, m and v (the largest v with a.amsgrad) after a step; inputs[4] is the root of v.
  function M.adam_step(inputs, a)
    local scale, p, g, m = begin(inputs, a)
    local root, top = inputs[4], inputs[5]
    local v, most = like(root), top and like(top)
    for i = 1, M.count(p.shape) do
      v[i] = root[i] * root[i]
      if top then most[i] = top[i] * top[i] end
    end
    if not scale then return { p, g, most or v } end
    local out_p, out_m, out_v = like(p), like(m), like(v)
    local t = a.count + 1
    for i = 1, M.count(p.shape) do
      local d = scale * g[i] + (a.decoupled and 0 or a.weight_decay * p[i])
      local size = math.abs(scale * g[i]) + math.abs(a.weight_decay * p[i])
      local first = a.beta1 * m[i] + (1 - a.beta1) * d
      local second = a.beta2 * v[i] + (1 - a.beta2) * d * d
      local largest = most and math.max(most[i], second) or second
      put(out_m, i, first, math.abs(m[i]) + size)
      put(out_v, i, most and largest or second, v[i] + size * size)
      local by = math.sqrt(largest) / math.sqrt(1 - a.beta2 ^ t) + a.eps
      local rate = a.rate / (1 - a.beta1 ^ t)
      local start = a.decoupled and (1 - a.rate * a.weight_decay) * p[i] or p[i]
      put(out_p, i, start - rate * first / by,
        math.abs(p[i]) + rate * (math.abs(m[i]) + size) / by * 2)
    end
    return { out_p, out_m, out_v }
  end

  --- Lion: p and m after a step.
  function M.lion_step(inputs, a)
    local scale, p, g, m = begin(inputs, a)
    if not scale then return { p, g } end
    local out_p, out_m = like(p), like(m)
    for i = 1, M.count(p.shape) do
      local d = scale * g[i]
      local way = a.beta1 * m[i] + (1 - a.beta1) * d
      local sign = way > 0 and 1 or way < 0 and -1 or 0
      put(out_p, i, (1 - a.rate * a.weight_decay) * p[i] - a.rate * sign,
        math.abs(p[i]) + a.rate)
      put(out_m, i, a.beta2 * m[i] + (1 - a.beta2) * d, math.abs(m[i]) + math.abs(d))
    end
    return { out_p, out_m }
  end

  --- The norm of all elements of all inputs.
  function M.total_norm(inputs)
    local sum = 0
    for _, x in ipairs(inputs) do
      for i = 1, M.count(x.shape) do sum = sum + x[i] * x[i] end
    end
    local y = M.new({}, 'f64')
    y[1] = math.sqrt(sum)
    return { y }
  end

  --- The sum of all inputs, or their mean, for the first and the last.
  function M.all_reduce(inputs, a)
    local y = like(inputs[1])
    for i = 1, M.count(y.shape) do
      local sum, size = 0, 0
      for _, x in ipairs(inputs) do sum, size = sum + x[i], size + math.abs(x[i]) end
      local over = a.mean and #inputs or 1
      put(y, i, sum / over, size / over)
    end
    return { y, y }
  end

  -- -- Normalisation ----------------------------------------------------------------------------

  -- The sum of f(1) .. f(n), what each addition loses added to the next (Kahan 1965): a reference
  -- must know more digits than what it judges, which is f64 too.
  local function sum_of(n, f)
    local sum, lost = 0, 0
    for i = 1, n do
      local term = f(i) - lost
      local next = sum + term
      lost, sum = (next - sum) - term, next
    end
    return sum
  end

  local function row_facts(x, row, n, a)
    local mean = a.rms and 0 or sum_of(n, function(i) return x[row * n + i] end) / n
    local sum = sum_of(n, function(i) return (x[row * n + i] - mean) ^ 2 end)
    return mean, 1 / math.sqrt(sum / n + a.eps)
  end

  --- Rows of the last axis with mean 0 and variance 1, times a weight, plus a bias.
  function M.layer_norm(inputs, a)
    local x, w, b = inputs[1], inputs[2], inputs[3]
    local n = x.shape[#x.shape]
    local y = M.new(x.shape, x.dtype)
    y.magnitude = {}
    for row = 0, M.count(x.shape) / n - 1 do
      local mean, scale = row_facts(x, row, n, a)
      for i = 1, n do
        local at = row * n + i
        local factor = scale * (w and w[i] or 1)
        y[at] = (x[at] - mean) * factor + (b and b[i] or 0)
        y.magnitude[at] = (math.abs(x[at]) + math.abs(mean)) * math.abs(factor)
          + (b and math.abs(b[i]) or 0) + math.abs(y[at]) * 2
      end
    end
    return { y }
  end

  --- Its gradients, of dy, x, a weight, and mean and scale of each row.
  function M.layer_norm_back(inputs, a)
    local dy, x, w, mean, scale = unpack(inputs, 1, 5)
    local n = x.shape[#x.shape]
    local kind = loss_dtype(x)
    local dx, dw, db = M.new(x.shape, x.dtype), M.new({ n }, kind), M.new({ n }, kind)
    for _, t in ipairs { dx, dw, db } do t.magnitude = {} end
    for i = 1, n do
      dw[i], db[i], dw.magnitude[i], db.magnitude[i] = 0, 0, 0, 0
    end
    for row = 0, M.count(x.shape) / n - 1 do
      local m, s = mean[row + 1], scale[row + 1]
      local first, second, size1, size2 = 0, 0, 0, 0
      for i = 1, n do
        local at = row * n + i
        local z, g = (x[at] - m) * s, dy[at] * (w and w[i] or 1)
        local wide = (math.abs(x[at]) + math.abs(m)) * math.abs(s)
        first, second = first + g, second + g * z
        size1, size2 = size1 + math.abs(g), size2 + math.abs(g) * wide
        dw[i], db[i] = dw[i] + dy[at] * z, db[i] + dy[at]
        dw.magnitude[i] = dw.magnitude[i] + math.abs(dy[at]) * wide
        db.magnitude[i] = db.magnitude[i] + math.abs(dy[at])
      end
      for i = 1, n do
        local at = row * n + i
        local z, g = (x[at] - m) * s, dy[at] * (w and w[i] or 1)
        local wide = (math.abs(x[at]) + math.abs(m)) * math.abs(s)
        dx[at] = s * (g - (a.rms and 0 or first / n) - z * second / n)
        dx.magnitude[at] = math.abs(s) * (math.abs(g) + size1 / n + wide * size2 / n)
      end
    end
    return { dx, dw, db }
  end

  -- -- Activations ------------------------------------------------------------------------------

  local SLOPE = {
    function(y) return y > 0 and 1 or 0 end,
    function(z)
      local density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
      return 0.5 * (1 + M.unary.erf(z / math.sqrt(2))) + z * density
    end,
    function(z)
      local s = 1 / (1 + math.exp(-z))
      return s * (1 + z * (1 - s))
    end,
    function(y) return 1 - y * y end,
    function(y) return y * (1 - y) end,
    function(y) return y > 0 and y < 6 and 1 or 0 end,
  }

  --- dy times the derivative of activation args.act at x.
  function M.act_back(inputs, args)
    local dy, x = inputs[1], inputs[2]
    local dx = M.new(dy.shape, M.promote(dy.dtype, x.dtype))
    dx.magnitude = {}
    for i = 1, M.count(dy.shape) do
      dx[i] = dy[i] * SLOPE[args.act](x[i])
      dx.magnitude[i] = math.abs(dy[i]) * (1 + x[i] * x[i])
    end
    return { dx }
  end

  --- The gradient of softmax along args.axis (from 0) from dy and its result y.
  function M.softmax_back(inputs, args)
    local dy, y = inputs[1], inputs[2]
    local axis = args.axis < 0 and args.axis + #y.shape + 1 or args.axis + 1
    local dx = M.new(y.shape, M.promote(dy.dtype, y.dtype))
    dx.magnitude = {}
    local n, inner = y.shape[axis], 1
    for i = axis + 1, #y.shape do inner = inner * y.shape[i] end
    for first = 1, M.count(y.shape) do
      if math.floor((first - 1) / inner) % n == 0 then
        local last = first + (n - 1) * inner
        local sum, size = 0, 0
        for at = first, last, inner do
          local product = dy[at] * y[at]
          sum, size = sum + product, size + math.abs(product)
        end
        for at = first, last, inner do
          dx[at] = y[at] * (dy[at] - sum)
          dx.magnitude[at] = math.abs(y[at]) * (math.abs(dy[at]) + size)
        end
      end
    end
    return { dx }
  end
end

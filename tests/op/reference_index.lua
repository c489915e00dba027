-- SPDX-License-Identifier: MIT
-- reference_index: what gathering, scattering and sorting along an axis mean, in plain loops over
-- Lua numbers.  See reference.lua for what a tensor is here.

return function(M) -- M: the rest of the reference
  -- f(place, position along the axis, place where that is 0) for each element of a shape, from 0;
  -- places are those in a tensor of the sizes `of`.
  local function each(shape, of, axis, f)
    local strides, next_one = {}, 1
    for i = #of, 1, -1 do
      strides[i] = next_one
      next_one = next_one * of[i]
    end
    for place = 0, M.count(shape) - 1 do
      local rest, base, at = place, 0, 0
      for i = #shape, 1, -1 do
        local here = rest % shape[i]
        rest = (rest - here) / shape[i]
        if i == axis then at = here else base = base + here * strides[i] end
      end
      f(place, at, base, strides[axis])
    end
  end

  local function axis_of(args, shape)
    return args.axis < 0 and args.axis + #shape + 1 or args.axis + 1
  end

  --- The element of x at each position in args.index, whose shape is args.shape.
  function M.gather(inputs, args)
    local x = inputs[1]
    local y = M.new(args.shape, x.dtype)
    each(args.shape, x.shape, axis_of(args, x.shape), function(place, _, base, stride)
      y[place + 1] = x[base + args.index[place + 1] * stride + 1]
    end)
    return { y }
  end

  local function most(a, b) return (a ~= a or b ~= b) and 0 / 0 or math.max(a, b) end
  local function least(a, b) return (a ~= a or b ~= b) and 0 / 0 or math.min(a, b) end
  local MEET = { [0] = function(_, b) return b end, function(a, b) return a + b end,
    function(a, b) return a * b end, most, least }
  local TRUTH = { [0] = MEET[0], most, least, most, least }

  --- x with src at the positions in args.index, by args.reduce.
  function M.scatter(inputs, args)
    local x, src = inputs[1], inputs[2]
    local y = M.new(x.shape, x.dtype)
    local meet = (x.dtype == 'bool' and TRUTH or MEET)[args.reduce or 0]
    y.magnitude = {}
    for i = 1, M.count(x.shape) do y[i], y.magnitude[i] = x[i], math.abs(x[i]) end
    each(args.shape, x.shape, axis_of(args, x.shape), function(place, _, base, stride)
      local at = base + args.index[place + 1] * stride + 1
      y[at] = meet(y[at], src[place + 1])
      y.magnitude[at] = y.magnitude[at] + math.abs(src[place + 1])
    end)
    return { y }
  end

  -- f(list of places of one row along the axis, from 1) for each row of a shape.
  local function rows(shape, axis, f)
    local inner = 1
    for i = axis + 1, #shape do inner = inner * shape[i] end
    local n = shape[axis]
    for outer = 0, M.count(shape) / math.max(1, n * inner) - 1 do
      for k = 1, n > 0 and inner or 0 do
        local places = {}
        for i = 0, n - 1 do places[i + 1] = outer * n * inner + i * inner + k end
        f(places, outer, k, inner)
      end
    end
  end

  -- The first k along the axis; before(a, b): must a stand before b?
  local function ordered(x, axis, k, before)
    local shape = { unpack(x.shape) }
    shape[axis] = k
    local y, index = M.new(shape, x.dtype), M.new(shape, 'i64')
    rows(x.shape, axis, function(places, outer, inside, inner)
      local order = {}
      for i = 1, #places do -- by insertion, which keeps equal ones in their order
        local at = i
        while at > 1 and before(x[places[i]], x[places[order[at - 1]]]) do
          order[at] = order[at - 1]
          at = at - 1
        end
        order[at] = i
      end
      for i = 1, k do
        local to = (outer * k + i - 1) * inner + inside
        y[to], index[to] = x[places[order[i]]], order[i] - 1
      end
    end)
    return { y, index }
  end

  local function less(a, b) return a < b or (a == a and b ~= b) end
  local function more(a, b) return less(b, a) end

  --- The elements along args.axis in order, nan as the largest, and where each stood.
  function M.sort(inputs, args)
    local x = inputs[1]
    local axis = axis_of(args, x.shape)
    return ordered(x, axis, x.shape[axis], args.descending and more or less)
  end

  --- The first args.k of them.
  function M.topk(inputs, args)
    local x = inputs[1]
    return ordered(x, axis_of(args, x.shape), args.k, args.smallest and less or more)
  end

  -- The place, along one axis of size n, of what padding has at `at`; nil: the constant.
  local FROM = {
    [0] = function() end,
    function(at, n) -- reflect: to and fro
      while at < 0 or at >= n do
        if at < 0 then at = -at end
        if at >= n then at = 2 * (n - 1) - at end
        if n == 1 then at = 0 end
      end
      return at
    end,
    function(at, n) return math.max(0, math.min(at, n - 1)) end,
    function(at, n) return at % n end,
  }

  -- f(place in the padded tensor, place in the other or nil) from 1.
  local function padded(shape, args, f)
    local wide = {}
    for i = 1, #shape do wide[i] = shape[i] + args.low[i] + args.high[i] end
    for place = 0, M.count(wide) - 1 do
      local rest, from, stride = place, 0, 1
      for i = #wide, 1, -1 do
        local at = rest % wide[i] - args.low[i]
        rest = math.floor(rest / wide[i])
        local inside = at >= 0 and at < shape[i] and at or FROM[args.mode or 0](at, shape[i])
        from = from and inside and from + inside * stride
        stride = stride * shape[i]
      end
      f(place + 1, from and from + 1)
    end
    return wide
  end

  --- x with args.low and args.high elements before and behind.
  function M.pad(inputs, args)
    local x, values = inputs[1], {}
    local wide = padded(x.shape, args, function(place, from)
      values[place] = from and x[from] or M.convert(args.value or 0, x.dtype)
    end)
    local y = M.new(wide, x.dtype)
    for i, v in ipairs(values) do y[i] = v end
    return { y }
  end

  --- The gradient of that for args.shape.
  function M.pad_back(inputs, args)
    local dy, dx = inputs[1], M.new(args.shape, inputs[1].dtype)
    dx.magnitude = {}
    for i = 1, M.count(args.shape) do dx[i], dx.magnitude[i] = 0, 0 end
    padded(args.shape, args, function(place, from)
      if from then
        dx[from] = dx[from] + dy[place]
        dx.magnitude[from] = dx.magnitude[from] + math.abs(dy[place])
      end
    end)
    return { dx }
  end

  local function triangle(keeps)
    return function(inputs, args)
      local x = inputs[1]
      local y, rows_of, columns = M.new(x.shape, x.dtype), x.shape[#x.shape - 1], x.shape[#x.shape]
      for i = 0, M.count(x.shape) - 1 do
        local row, column = math.floor(i / columns) % rows_of, i % columns
        y[i + 1] = keeps(column - row, args.diagonal) and x[i + 1] or 0
      end
      return { y }
    end
  end
  M.tril = triangle(function(distance, diagonal) return distance <= diagonal end)
  M.triu = triangle(function(distance, diagonal) return distance >= diagonal end)
end

-- SPDX-License-Identifier: MIT
-- reference_resample: what another size of an axis means, in plain loops over Lua numbers, as ONNX
-- defines Resize.  See reference.lua for what a tensor is here.

return function(M) -- M: the rest of the reference
  local PLACE = {
    [0] = function(i, _, _, scale) return (i + 0.5) / scale - 0.5 end,
    function(i, _, to, scale) return to == 1 and 0 or (i + 0.5) / scale - 0.5 end,
    function(i, from, _, scale)
      return scale * from == 1 and 0 or i * (from - 1) / (scale * from - 1)
    end,
    function(i, _, _, scale) return i / scale end,
    function(i, from, to, scale)
      return from / 2 * (1 - to / (scale * from)) + (i + 0.5) / scale - 0.5
    end,
    function(i, from, to, _, a)
      local first, last = (a.first or 0) * (from - 1), (a.last or 1) * (from - 1)
      return to == 1 and (first + last) / 2 or first + i * (last - first) / (to - 1)
    end,
  }

  local NEAREST = {
    [0] = function(v) return v % 1 <= 0.5 and math.floor(v) or math.floor(v) + 1 end,
    function(v) return v % 1 < 0.5 and math.floor(v) or math.floor(v) + 1 end,
    math.floor, math.ceil,
  }

  local function linear(v) return math.max(0, 1 - math.abs(v)) end
  local function cubic(v, a)
    v = math.abs(v)
    if v <= 1 then return (a + 2) * v ^ 3 - (a + 3) * v ^ 2 + 1 end
    return v < 2 and a * v ^ 3 - 5 * a * v ^ 2 + 8 * a * v - 4 * a or 0
  end

  -- f(element, weight) for what result i is made of; the number where it is one.
  local function taps(i, from, to, a, f)
    local scale = (a.scale or 0) > 0 and a.scale or to / from
    local place = PLACE[a.coordinates or 0](i, from, to, scale, a)
    if a.coordinates == 5 and not (place >= 0 and place <= from - 1) then return a.value or 0 end
    local function clamp(at) return math.max(0, math.min(at, from - 1)) end
    if a.mode == 0 then
      f(clamp(NEAREST[a.rounding or 0](place)), 1)
      return
    end
    local shrink = a.antialias and scale < 1 and scale or 1
    local kernel, width, list, sum = a.mode == 1 and linear or cubic, 2 / shrink, {}, 0
    for at = math.floor(place - width) - 1, math.ceil(place + width) + 1 do
      local inside = at >= 0 and at < from
      local weight = (a.exclude and not inside) and 0
        or kernel((at - place) * shrink, a.cubic or -0.75)
      sum = sum + weight
      list[#list + 1] = { clamp(at), weight }
    end
    for _, tap in ipairs(list) do
      if tap[2] ~= 0 then f(tap[1], (a.exclude or shrink < 1) and tap[2] / sum or tap[2]) end
    end
  end

  local function along(shape, axis, size)
    local inner, out = 1, { unpack(shape) }
    for k = axis + 1, #shape do inner = inner * shape[k] end
    out[axis] = size
    return inner, out
  end

  local function axis_of(args, shape)
    return args.axis < 0 and args.axis + #shape + 1 or args.axis + 1
  end

  --- x with args.axis of size args.size.
  function M.resample(inputs, args)
    local x = inputs[1]
    local axis = axis_of(args, x.shape)
    local from, to = x.shape[axis], args.size
    local inner, shape = along(x.shape, axis, to)
    local y = M.new(shape, x.dtype)
    y.magnitude = {}
    for place = 0, M.count(shape) - 1 do
      local k, i = place % inner, math.floor(place / inner) % to
      local outer = math.floor(place / inner / to)
      local sum, size = 0, 0
      local number = taps(i, from, to, args, function(at, weight)
        local v = x[(outer * from + at) * inner + k + 1]
        sum, size = sum + v * weight, size + math.abs(v) * from -- places have errors of that size
      end)
      y[place + 1], y.magnitude[place + 1] = number or sum, size
    end
    return { y }
  end

  --- dy spread over what each result was made of; the axis of the gradient is args.size.
  function M.resample_back(inputs, args)
    local dy = inputs[1]
    local axis = axis_of(args, dy.shape)
    local from, to = args.size, dy.shape[axis]
    local inner, shape = along(dy.shape, axis, from)
    local dx = M.new(shape, dy.dtype)
    dx.magnitude = {}
    for i = 1, M.count(shape) do dx[i], dx.magnitude[i] = 0, 0 end
    for place = 0, M.count(dy.shape) - 1 do
      local k, i = place % inner, math.floor(place / inner) % to
      local outer = math.floor(place / inner / to)
      taps(i, from, to, args, function(at, weight)
        local where, v = (outer * from + at) * inner + k + 1, dy[place + 1] * weight
        dx[where] = dx[where] + v
        dx.magnitude[where] = dx.magnitude[where] + math.abs(dy[place + 1]) * from
      end)
    end
    return { dx }
  end
end

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
end

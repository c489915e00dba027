-- SPDX-License-Identifier: MIT
-- reference_image: what operations on images mean, in plain loops over Lua numbers.  See
-- reference.lua for what a tensor is here.  Results carry the magnitude of what was added up.

return function(M) -- M: the rest of the reference
  local ACTIVATIONS = { [0] = function(v) return v end, M.unary.relu, M.unary.gelu, M.unary.silu,
    M.unary.tanh, M.unary.sigmoid, M.unary.relu6 }

  local function dtype_of(inputs)
    local dtype
    for _, x in ipairs(inputs) do
      if x then dtype = dtype and M.promote(dtype, x.dtype) or x.dtype end
    end
    return dtype
  end

  -- Batch, channels, rows, columns of a shape in a layout, and where an element is, from 0.
  local function images(shape, nhwc)
    if nhwc then
      local n, h, w, c = unpack(shape)
      return n, c, h, w, function(i, j, k, l) return ((i * h + k) * w + l) * c + j + 1 end
    end
    local n, c, h, w = unpack(shape)
    return n, c, h, w, function(i, j, k, l) return ((i * c + j) * h + k) * w + l + 1 end
  end

  local function shape_of(nhwc, n, c, h, w)
    return nhwc and { n, h, w, c } or { n, c, h, w }
  end

  -- Call f for every product of a convolution: places in x, w and y.
  local function products(a, x_shape, w_shape, y_shape, f)
    local n, _, h, w, at_x = images(x_shape, a.nhwc)
    local _, o, oh, ow, at_y = images(y_shape, a.nhwc)
    local in_group, kh, kw = w_shape[2], w_shape[3], w_shape[4]
    local out_group = o / (a.groups or 1)
    local stride, dilation = a.stride or { 1, 1 }, a.dilation or { 1, 1 }
    local pad = a.pad or { 0, 0, 0, 0 } -- top, left, bottom, right
    for b = 0, n - 1 do
      for j = 0, o - 1 do
        local first = math.floor(j / out_group) * in_group
        for r = 0, oh - 1 do
          for s = 0, ow - 1 do
            for p = 0, kh - 1 do
              for q = 0, kw - 1 do
                local row = r * stride[1] + p * dilation[1] - pad[1]
                local column = s * stride[2] + q * dilation[2] - pad[2]
                if row >= 0 and row < h and column >= 0 and column < w then
                  for c = 0, in_group - 1 do
                    f(at_x(b, first + c, row, column),
                      ((j * in_group + c) * kh + p) * kw + q + 1, at_y(b, j, r, s))
                  end
                end
              end
            end
          end
        end
      end
    end
  end

  -- A tensor of zeros that says what was added up to its elements.
  local function sums(shape, dtype)
    local t = M.new(shape, dtype)
    t.magnitude = {}
    for i = 1, M.count(shape) do t[i], t.magnitude[i] = 0, 0 end
    return t
  end

  local function add(t, i, v)
    t[i] = t[i] + v
    t.magnitude[i] = t.magnitude[i] + math.abs(v)
  end

  local function size_after(a, i, size, kernel)
    local pad = a.pad or { 0, 0, 0, 0 }
    local reach = ((a.dilation or { 1, 1 })[i]) * (kernel - 1) + 1
    return math.floor((size + pad[i] + pad[i + 2] - reach) / (a.stride or { 1, 1 })[i]) + 1
  end

  --- Convolution with bias and activation.
  function M.conv2d(inputs, a)
    local x, w, bias = inputs[1], inputs[2], inputs[3]
    local n, _, h, width = images(x.shape, a.nhwc)
    local y = sums(shape_of(a.nhwc, n, w.shape[1], size_after(a, 1, h, w.shape[3]),
      size_after(a, 2, width, w.shape[4])), dtype_of(inputs))
    products(a, x.shape, w.shape, y.shape, function(i, j, k) add(y, k, x[i] * w[j]) end)
    local rows, o, oh, ow, at = images(y.shape, a.nhwc)
    for b = 0, rows - 1 do
      for j = 0, o - 1 do
        for r = 0, oh - 1 do
          for s = 0, ow - 1 do
            local i = at(b, j, r, s)
            if bias then add(y, i, bias[j + 1]) end
            y[i] = ACTIVATIONS[a.act or 0](y[i])
          end
        end
      end
    end
    return { y }
  end

  --- With a tensor added before the activation.
  function M.conv2d_add(inputs, a)
    local plain = {}
    for k, v in pairs(a) do plain[k] = v end
    plain.act = 0
    local y = M.conv2d({ inputs[1], inputs[2], inputs[4] }, plain)[1]
    for i = 1, M.count(y.shape) do
      add(y, i, inputs[3][i])
      y[i] = ACTIVATIONS[a.act or 0](y[i])
    end
    return { y }
  end

  -- To the nearest whole number, ties to even.
  local function nearest(v)
    local low = math.floor(v)
    local rest = v - low
    return (rest > 0.5 or rest == 0.5 and low % 2 == 1) and low + 1 or low
  end

  local LIMITS = { i8 = { -128, 127 }, u8 = { 0, 255 } }

  --- Convolution of bytes with scales, into bytes if args.dtype says so.
  function M.scaled_conv2d(inputs, a)
    local x, w, x_scale, w_scale, bias, y_scale = unpack(inputs, 1, 6)
    local plain = M.new(x.shape, 'f64')
    for i = 1, M.count(x.shape) do plain[i] = x[i] - (a.x_zero or 0) end
    local sum = M.conv2d({ plain, w }, { pad = a.pad, stride = a.stride, dilation = a.dilation,
      groups = a.groups, nhwc = a.nhwc })[1]
    local y = sums(sum.shape, a.dtype or 'f32')
    local rows, o, oh, ow, at = images(sum.shape, a.nhwc)
    for b = 0, rows - 1 do
      for j = 0, o - 1 do
        local scale = x_scale[1] * w_scale[M.count(w_scale.shape) == 1 and 1 or j + 1]
        for r = 0, oh - 1 do
          for s = 0, ow - 1 do
            local i = at(b, j, r, s)
            add(y, i, sum[i] * scale)
            if bias then add(y, i, bias[j + 1] * (bias.dtype == 'i32' and scale or 1)) end
            y[i] = ACTIVATIONS[a.act or 0](y[i])
            local limits = LIMITS[y.dtype]
            if limits then
              local byte = nearest(y[i] / y_scale[1]) + (a.y_zero or 0)
              y[i] = math.max(limits[1], math.min(limits[2], byte))
            end
          end
        end
      end
    end
    return { y }
  end

  --- Its gradient for x.
  function M.conv2d_back_data(inputs, a)
    local dy, w = inputs[1], inputs[2]
    local n = images(dy.shape, a.nhwc)
    local dx = sums(shape_of(a.nhwc, n, w.shape[2] * (a.groups or 1), a.rows, a.columns),
      dtype_of(inputs))
    products(a, dx.shape, w.shape, dy.shape, function(i, j, k) add(dx, i, dy[k] * w[j]) end)
    return { dx }
  end

  --- Its gradients for w and b.
  function M.conv2d_back_weight(inputs, a)
    local x, dy = inputs[1], inputs[2]
    local _, c = images(x.shape, a.nhwc)
    local n, o, oh, ow, at = images(dy.shape, a.nhwc)
    local dtype = dtype_of(inputs)
    local dw = sums({ o, c / (a.groups or 1), a.rows, a.columns }, dtype)
    local db = sums({ o }, dtype)
    products(a, x.shape, dw.shape, dy.shape, function(i, j, k) add(dw, j, x[i] * dy[k]) end)
    for b = 0, n - 1 do
      for j = 0, o - 1 do
        for r = 0, oh - 1 do
          for s = 0, ow - 1 do add(db, j + 1, dy[at(b, j, r, s)]) end
        end
      end
    end
    return { dw, db }
  end

  -- -- Pooling ----------------------------------------------------------------------------------

  -- Call f(place in y, list of places in x) for every window, whose size is known by the options.
  local function windows(a, x_shape, y_shape, f)
    local n, c, h, w, at_x = images(x_shape, a.nhwc)
    local _, _, oh, ow, at_y = images(y_shape, a.nhwc)
    local stride, pad = a.stride or a.size, a.pad or { 0, 0, 0, 0 }
    for b = 0, n - 1 do
      for j = 0, c - 1 do
        for r = 0, oh - 1 do
          for s = 0, ow - 1 do
            local places, cells = {}, {}
            for p = 0, a.size[1] - 1 do
              for q = 0, a.size[2] - 1 do
                local row, column = r * stride[1] + p - pad[1], s * stride[2] + q - pad[2]
                if row >= 0 and row < h and column >= 0 and column < w then
                  places[#places + 1] = at_x(b, j, row, column)
                  cells[#cells + 1] = row * w + column
                end
              end
            end
            f(at_y(b, j, r, s), places, cells)
          end
        end
      end
    end
  end

  local function pooled(x, a)
    local n, c, h, w = images(x.shape, a.nhwc)
    local b = { stride = a.stride or a.size, pad = a.pad }
    return sums(shape_of(a.nhwc, n, c, size_after(b, 1, h, a.size[1]),
      size_after(b, 2, w, a.size[2])), x.dtype)
  end

  --- The largest of each window; nan wins.
  function M.max_pool2d(inputs, a)
    local x = inputs[1]
    local y = pooled(x, a)
    windows(a, x.shape, y.shape, function(i, places)
      y[i] = x[places[1]]
      for _, place in ipairs(places) do
        if x[place] > y[i] or x[place] ~= x[place] then y[i] = x[place] end
      end
    end)
    return { y }
  end

  --- The average of each window.
  function M.avg_pool2d(inputs, a)
    local x = inputs[1]
    local y = pooled(x, a)
    windows(a, x.shape, y.shape, function(i, places)
      local count = a.skip_pad and #places or a.size[1] * a.size[2]
      for _, place in ipairs(places) do add(y, i, x[place] / count) end
    end)
    return { y }
  end

  --- The largest byte of each window, or the average, where padding is x_zero.
  function M.scaled_pool2d(inputs, a)
    if not a.average then return M.max_pool2d(inputs, a) end
    local x = inputs[1]
    local y = pooled(x, a)
    windows(a, x.shape, y.shape, function(i, places)
      local count = a.skip_pad and #places or a.size[1] * a.size[2]
      local sum = (count - #places) * (a.x_zero or 0)
      for _, place in ipairs(places) do sum = sum + x[place] end
      y[i] = nearest(sum / count)
    end)
    return { y }
  end

  --- Where the k-th element of each window is, as the index of max_pool2d_back, from 0.
  function M.pool_index(y_shape, a)
    local _, c = images(y_shape, a.nhwc)
    local x_shape = shape_of(a.nhwc, y_shape[1], c, a.rows, a.columns)
    local index, k = {}, 0
    windows(a, x_shape, y_shape, function(i, _, cells)
      k = k + 1
      index[i] = cells[k % #cells + 1]
    end)
    return index, x_shape
  end

  --- Each dy to where its index points.
  function M.max_pool2d_back(inputs, a)
    local dy = inputs[1]
    local index, x_shape = M.pool_index(dy.shape, a)
    local dx = sums(x_shape, dy.dtype)
    local n, c, oh, ow, at = images(dy.shape, a.nhwc)
    local _, _, _, w, at_x = images(x_shape, a.nhwc)
    for b = 0, n - 1 do
      for j = 0, c - 1 do
        for r = 0, oh - 1 do
          for s = 0, ow - 1 do
            local i = at(b, j, r, s)
            add(dx, at_x(b, j, math.floor(index[i] / w), index[i] % w), dy[i])
          end
        end
      end
    end
    return { dx }
  end

  --- Each dy spread over its window.
  function M.avg_pool2d_back(inputs, a)
    local dy = inputs[1]
    local _, x_shape = M.pool_index(dy.shape, a)
    local dx = sums(x_shape, dy.dtype)
    windows(a, x_shape, dy.shape, function(i, places)
      local count = a.skip_pad and #places or a.size[1] * a.size[2]
      for _, place in ipairs(places) do add(dx, place, dy[i] / count) end
    end)
    return { dx }
  end
end

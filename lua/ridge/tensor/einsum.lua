-- SPDX-License-Identifier: MIT
--- Sums of products over named axes (Einstein's convention), made of permutations and products of
--- matrices.

local blame = require 'ridge.blame'
local ref = require 'ridge.ffi.ref'

local M = {}

local FLOAT = { f32 = true, f64 = true, f16 = true, bf16 = true }

local function fail(text, ...)
  blame.raise('einsum: ' .. text:format(...), 'EARG', 'einsum')
end

-- -- The equation ---------------------------------------------------------------------------

-- The labels of a term, one for each of n axes; those of '...' are '.1', the last, '.2' ...
local function labels_of(term, n, equation)
  local list, dots = {}, term:find('...', 1, true)
  local letters = term:gsub('%.%.%.', '')
  if letters:find '[^%a]' then
    fail("%s: a term has letters and one '...', got '%s'", blame.show(equation), term)
  end
  local rest = n - #letters
  if rest < 0 or rest > 0 and not dots then
    fail("%s: '%s' names %d axes, and the tensor has %d", blame.show(equation), term, #letters, n)
  end
  for i = 1, #letters do
    if dots and i == dots then
      for k = rest, 1, -1 do list[#list + 1] = '.' .. k end
    end
    list[#list + 1] = letters:sub(i, i)
  end
  if dots == #letters + 1 then
    for k = rest, 1, -1 do list[#list + 1] = '.' .. k end
  end
  return list
end

-- The terms, and the labels of the result.
local function parse(equation, tensors)
  local text = equation:gsub('%s', '')
  local left, right = text:match '^(.-)%->(.*)$'
  left = left or text
  local terms, count, dots = {}, {}, 0
  for term in (left .. ','):gmatch '(.-),' do
    local x = tensors[#terms + 1]
    if not x then fail('%s: more terms than tensors (%d)', blame.show(equation), #tensors) end
    local list = labels_of(term, x.ndim, equation)
    terms[#terms + 1] = list
    for _, label in ipairs(list) do
      count[label] = (count[label] or 0) + 1
      if #label > 1 then dots = math.max(dots, tonumber(label:sub(2))) end
    end
  end
  if #terms ~= #tensors then
    fail('%s: %d terms for %d tensors', blame.show(equation), #terms, #tensors)
  end
  local out = {}
  if right then
    local letters = right:gsub('%.%.%.', '')
    out = labels_of(right, #letters + (right:find('...', 1, true) and dots or 0), equation)
  else -- what stands once, in order
    for label, n in pairs(count) do
      if n == 1 and #label == 1 then out[#out + 1] = label end
    end
    table.sort(out)
    for k = 1, dots do table.insert(out, 1, '.' .. k) end
  end
  local seen = {}
  for _, label in ipairs(out) do
    if seen[label] or not count[label] then
      fail("%s: '%s' of the result stands %s", blame.show(equation), label,
        seen[label] and 'there twice' or 'in no term')
    end
    seen[label] = true
  end
  return terms, out
end

-- -- Steps ------------------------------------------------------------------------------------

local function place(list, label)
  for i, each in ipairs(list) do
    if each == label then return i end
  end
end

-- Axes in the order of labels; those that x has not are of size 1.
local function arranged(x, has, wanted)
  local order, shape = {}, {}
  for i, label in ipairs(wanted) do
    local at = place(has, label)
    if at then order[#order + 1] = at end
    shape[i] = at and x:size(at) or 1
  end
  if #order > 0 then x = x:permute(order) end
  return #order < #wanted and x:reshape(shape) or x
end

-- The diagonal of axes with one label, and sums over those that nobody else wants.
local function reduced(x, labels, wanted)
  labels = { unpack(labels) }
  for i = #labels, 2, -1 do
    local first = place(labels, labels[i])
    if first < i then
      local n = x:size(i)
      if x:size(first) ~= n then
        fail("'%s' is of size %d and of size %d in one term", labels[i], x:size(first), n)
      end
      local order, shape = {}, {}
      for k = 1, #labels do
        if k ~= first and k ~= i then order[#order + 1], shape[#shape + 1] = k, x:size(k) end
      end
      order[#order + 1], order[#order + 2] = first, i
      shape[#shape + 1] = n * n
      x = x:permute(order):reshape(shape):narrow(#shape, 1, n, n + 1)
      local label = table.remove(labels, i)
      table.remove(labels, first)
      labels[#labels + 1] = label
    end
  end
  local gone, kept = {}, {}
  for i, label in ipairs(labels) do
    if wanted[label] then kept[#kept + 1] = label else gone[#gone + 1] = i end
  end
  return #gone > 0 and x:sum(gone) or x, kept
end

local function product(x, labels)
  local n = 1
  for _, label in ipairs(labels) do n = n * x[label] end
  return n
end

local function joined(...)
  local all = {}
  for _, list in ipairs { ... } do
    for _, label in ipairs(list) do all[#all + 1] = label end
  end
  return all
end

-- Two tensors as one: sums over labels that both have and nobody else wants.
local function multiplied(x, xs, y, ys, wanted, sizes)
  local both, inner, left, right = {}, {}, {}, {}
  for _, label in ipairs(xs) do
    if not place(ys, label) then left[#left + 1] = label
    elseif wanted[label] then both[#both + 1] = label
    else inner[#inner + 1] = label end
  end
  for _, label in ipairs(ys) do
    if not place(xs, label) then right[#right + 1] = label end
  end
  local function grown(z, zs, labels) -- size 1 stands for all
    z = arranged(z, zs, labels)
    local shape, same = {}, true
    for i, label in ipairs(labels) do
      shape[i] = sizes[label]
      same = same and z:size(i) == shape[i]
    end
    return same and z or z:expand(shape)
  end
  local b, k = product(sizes, both), product(sizes, inner)
  local m, n = product(sizes, left), product(sizes, right)
  local a = grown(x, xs, joined(both, left, inner)):reshape(b, m, k)
  local labels, shape = joined(both, left, right), {}
  for i, label in ipairs(labels) do shape[i] = sizes[label] end
  local made
  if FLOAT[x.dtype] and FLOAT[y.dtype] then
    made = a:matmul(grown(y, ys, joined(both, inner, right)):reshape(b, k, n))
  else
    made = (a:reshape(b, m, 1, k) * grown(y, ys, joined(both, right, inner)):reshape(b, 1, n, k))
      :sum(4)
  end
  return made:reshape(shape), labels
end

--- Sums of products over named axes: each letter is an axis, those that the result does not name
--- are summed over, '...' stands for all that have no letter.
---@param equation string 'ij,jk->ik'; without '->' the result has what stands once, in order
---@param ... Tensor one for each term
---@return Tensor
-- >> ridge.einsum('ij,jk->ik', ridge.ones(2, 3), ridge.ones(3, 4))
-- >> ridge.einsum('ii', ridge.ones(3, 3))
function M.einsum(equation, ...)
  if type(equation) ~= 'string' then
    fail("an equation is expected, 'ij,jk->ik', got %s", blame.show(equation))
  end
  local tensors = { ... }
  if #tensors == 0 or #tensors ~= select('#', ...) then fail('tensors are expected') end
  for _, x in ipairs(tensors) do ref.need(x, 'einsum') end
  local terms, out = parse(equation, tensors)
  local sizes, uses = {}, {}
  for i, labels in ipairs(terms) do
    local once = {}
    for k, label in ipairs(labels) do
      local n = tensors[i]:size(k)
      local known = sizes[label] or n
      if known ~= n and known ~= 1 and n ~= 1 then
        fail("%s: '%s' is of size %d and of size %d", blame.show(equation), label, known, n)
      end
      sizes[label] = known == 1 and n or known
      if not once[label] then uses[label] = (uses[label] or 0) + 1 end
      once[label] = true
    end
  end
  for _, label in ipairs(out) do uses[label] = uses[label] + 1 end -- the result wants it as well
  local y, labels
  for i, x in ipairs(tensors) do
    local wanted = {}
    for _, label in ipairs(terms[i]) do wanted[label] = uses[label] > 1 end
    local part, mine = reduced(x, terms[i], wanted)
    if not y then
      y, labels = part, mine
    else
      for _, label in ipairs(mine) do
        if place(labels, label) then uses[label] = uses[label] - 1 end
        wanted[label] = uses[label] > 1
      end
      for _, label in ipairs(labels) do wanted[label] = uses[label] > 1 end
      y, labels = multiplied(y, labels, part, mine, wanted, sizes)
    end
  end
  local last = {}
  for _, label in ipairs(out) do last[label] = true end
  y, labels = reduced(y, labels, last)
  return #out > 0 and arranged(y, labels, out) or y
end

return M

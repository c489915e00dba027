-- SPDX-License-Identifier: MIT
--- ONNX's products: matrices, Gemm, Einsum, determinants.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'
local record = require 'ridge.onnx.ops.record'

local M = {}

function M.MatMul(_, x, y) return x:matmul(y) end

function M.Gemm(n, a, b, c)
  local plain = n:int('transA', 0) == 0 and n:int('transB', 0) == 1 and n:float('alpha', 1) == 1
    and (not c or n:float('beta', 1) == 1 and c.ndim == 1 and c.count == b.shape[1])
  if plain and record.alike(a, b, c) then return record.gemm(a, b, c) end
  if n:int('transA', 0) == 1 then a = a:t() end
  if n:int('transB', 0) == 1 then b = b:t() end
  local y = a:matmul(b)
  local alpha, beta = n:float('alpha', 1), n:float('beta', 1)
  if alpha ~= 1 then y = y * alpha end
  if c then y = y + (beta ~= 1 and c * beta or c) end
  return y:to(a.dtype)
end

-- -- Einsum -------------------------------------------------------------------------------------

-- Letters of a term; those of its dots are digits, aligned at their end.
local function letters_of(n, term, rank, most)
  local list, before, after = {}, term:match '^(%a*)%.%.%.(%a*)$'
  if not before then before, after = term, '' end
  local dots = term:find('...', 1, true) and rank - #before - #after or 0
  for letter in before:gmatch '%a' do list[#list + 1] = letter end
  for i = most - dots + 1, most do list[#list + 1] = tostring(i) end
  for letter in after:gmatch '%a' do list[#list + 1] = letter end
  if #list ~= rank then n:fail("'%s' does not fit a tensor of %d axes", term, rank) end
  return list
end

-- The diagonal of axes that have the same letter.
local function without_twice(x, letters)
  local i = 1
  while i <= #letters do
    for k = i + 1, #letters do
      if letters[k] == letters[i] then
        local size = x.shape[i]
        local shape = {}
        for axis = 1, x.ndim do shape[axis] = axis == i and size or 1 end
        local row = kit.counting(size):reshape(shape)
        local other = {}
        for axis = 1, x.ndim do other[axis] = axis == k and size or 1 end
        local same = row:eq(kit.counting(size):reshape(other)):to(x.dtype)
        x = (x * same):sum(k)
        table.remove(letters, k)
        return without_twice(x, letters)
      end
    end
    i = i + 1
  end
  return x, letters
end

-- With one axis for each letter of a list, of size 1 where it has none.
local function aligned(x, letters, all)
  local order, shape, at = {}, {}, {}
  for i, letter in ipairs(letters) do at[letter] = i end
  for i, letter in ipairs(all) do
    if at[letter] then
      order[#order + 1] = at[letter]
      shape[i] = x.shape[at[letter]]
    else
      shape[i] = 1
    end
  end
  return (#order > 0 and x:permute(order) or x):reshape(shape)
end

function M.Einsum(n, ...)
  local equation = n:string('equation'):gsub('%s', '')
  local left, right = equation:match '^(.-)%->(.*)$'
  local terms, most, x = {}, 0, { ... }
  for term in ((left or equation) .. ','):gmatch '([^,]*),' do terms[#terms + 1] = term end
  if #terms ~= #x then n:fail('%d terms for %d inputs', #terms, #x) end
  for i, term in ipairs(terms) do
    if term:find('...', 1, true) then most = math.max(most, x[i].ndim - (#term - 3)) end
  end
  local seen, count, letters = {}, {}, {}
  for i, term in ipairs(terms) do
    letters[i] = letters_of(n, term, x[i].ndim, most)
    for _, letter in ipairs(letters[i]) do
      count[letter] = (count[letter] or 0) + 1
      if count[letter] == 1 then seen[#seen + 1] = letter end
    end
    x[i], letters[i] = without_twice(x[i], letters[i])
  end
  local out = {}
  if right then
    local all = most
    local before, after = right:match '^(%a*)%.%.%.(%a*)$'
    for letter in (before or right):gmatch '%a' do out[#out + 1] = letter end
    if before then
      for i = 1, all do out[#out + 1] = tostring(i) end
      for letter in after:gmatch '%a' do out[#out + 1] = letter end
    end
  else
    for i = 1, most do out[i] = tostring(i) end
    table.sort(seen)
    for _, letter in ipairs(seen) do
      if count[letter] == 1 and letter:find '%a' then out[#out + 1] = letter end
    end
  end
  local all, kept = {}, {}
  for i, letter in ipairs(out) do all[i], kept[letter] = letter, true end
  local gone = {}
  for _, letter in ipairs(seen) do
    if not kept[letter] then
      all[#all + 1] = letter
      gone[#gone + 1] = #all
    end
  end
  local y
  -- two matrices or batches of them are one product
  if #x == 2 and #gone == 1 and #x[1].shape >= 2 and #x[2].shape >= 2 then
    local k = all[gone[1]]
    local a, b = aligned(x[1], letters[1], all), aligned(x[2], letters[2], all)
    local rows, columns, batch = {}, {}, {}
    for i = 1, #out do
      local p, q = a.shape[i], b.shape[i]
      if p == q then batch[#batch + 1] = i elseif q == 1 then rows[#rows + 1] = i
      else columns[#columns + 1] = i end
    end
    if #rows == 1 and #columns == 1 and k then
      local order = {}
      for _, i in ipairs(batch) do order[#order + 1] = i end
      local function ordered(first, second)
        local list = { unpack(order) }
        list[#list + 1], list[#list + 2] = first, second
        return list
      end
      local r, c, last = rows[1], columns[1], #all
      local function plain(t, axis)
        local list, shape = ordered(axis == c and last or r, axis == c and c or last), {}
        local other = axis == c and r or c
        local moved = t:select(other, 1)
        for i, at in ipairs(list) do shape[i] = at > other and at - 1 or at end
        return moved:permute(shape)
      end
      local z = plain(a, r):matmul(plain(b, c))
      local back, at = {}, ordered(r, c)
      for i, axis in ipairs(at) do back[axis] = i end
      return z:permute(back)
    end
  end
  for i = 1, #x do
    local each = aligned(x[i], letters[i], all)
    y = y and y * each or each
  end
  if #gone > 0 then y = y:sum(gone) end
  return y:to(x[1].dtype)
end

-- -- Determinants -------------------------------------------------------------------------------

-- By its first row: of the small matrices that nodes have.
local function det(x, size)
  if size == 1 then return x:select(-1, 1):select(-1, 1) end
  local sum
  for k = 1, size do
    local rest = x:narrow(-2, 2, size - 1)
    local list = {}
    if k > 1 then list[1] = rest:narrow(-1, 1, k - 1) end
    if k < size then list[#list + 1] = rest:narrow(-1, k + 1, size - k) end
    local minor = #list == 1 and list[1] or ridge.concat(list, -1)
    local term = x:select(-2, 1):select(-1, k) * det(minor, size - 1)
    if k % 2 == 0 then term = term:neg() end
    sum = sum and sum + term or term
  end
  return sum
end

function M.Det(n, x)
  local size = x.shape[x.ndim]
  if size > 6 then n:fail('of matrices with %d rows; at most 6 are computed', size) end
  return det(x, size)
end

return M

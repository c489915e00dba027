-- SPDX-License-Identifier: MIT
-- mutate_equal: mutants of C that no test could ever show, recognised from the text alone.  What
-- the compiler can tell is left to it (mutate_judge.lua compares the object code); these compile to
-- other code that does the same:
--
--   * memory that is asked for and is larger: what is behind the part in use is never looked at.
--     A smaller one is planted in its place, since the address sanitizer shows that.
--   * an automatic array that is larger, unless its size is asked for (sizeof) anywhere in the
--     file; not in CUDA, where a template may be told it
--   * arguments of a function that is symmetrical in them, changed for each other
--
-- Each rule holds for what it is sure of, and anything else is planted as before: a number in an
-- expression with a difference, a quotient or a call may make the memory smaller, and a buffer
-- whose sizeof is taken cuts texts elsewhere.

local M = {}

-- What gives memory, and from which argument on its size stands: every argument from there may only
-- make it larger.
local ALLOCATORS = { rg_host_alloc = 1, rg_host_zeroed = 1, malloc = 1, calloc = 1, realloc = 2 }

-- Of two integers, or of two texts of which only whether they are equal is asked.
local SYMMETRICAL = { rg_min_i64 = true, rg_max_i64 = true }
local COMPARED = { strcmp = true, strncmp = true, memcmp = true }

-- Values of these words grow with each number in them.  A name in front of a bracket is a cast's or
-- sizeof's, else it is called and may do anything with its argument.
local GROWS = { ["+"] = true, ["*"] = true, ["("] = true, [")"] = true, ["->"] = true, ["."] = true,
  ["<<"] = true }

local function grows(words, from, to)
  for k = from, to do
    local word, after = words[k], words[k + 1]
    if word.kind == "text" or word.kind == "sign" and not GROWS[word.text] then return false end
    if word.kind == "name" and word.text ~= "sizeof" and after.text == "(" then return false end
  end
  return true
end

--- Where numbers may only become smaller: the numbers of words that are part of the size in a call
--- of what gives memory.
---@param words table[] of a source of C
---@param arguments function the arguments of a call, by the number of its bracket
---@param arrays boolean of automatic arrays too
---@return table set by number of word
function M.sizes(words, arguments, arrays)
  local set = {}
  for i, word in ipairs(words) do
    local first = ALLOCATORS[word.text]
    if first and word.kind == "name" and words[i + 1] and words[i + 1].text == "(" then
      for k, range in ipairs(arguments(words, i + 1)) do
        for at = range[1], k >= first and grows(words, range[1], range[2]) and range[2] or 0 do
          set[at] = words[at].kind == "number" or nil
        end
      end
    end
  end
  if arrays then M.arrays(words, set) end
  return set
end

-- Names whose size is asked for: sizeof(x), sizeof x, and COUNT(x), which may be a macro of it.
local function measured(words)
  local names = {}
  for i, word in ipairs(words) do
    local after = words[i + 1]
    local asks = word.text == "sizeof" or word.kind == "name" and word.text:find "^[%u_%d]+$"
    local k = asks and after and after.text == "(" and i + 2 or i + 1
    if asks and words[k] and words[k].kind == "name" then names[words[k].text] = true end
  end
  return names
end

--- Adds the sizes of automatic arrays of one axis: `T x[3];` directly in a block of a function.
---@param words table[] of a source of C
---@param set table by number of word
function M.arrays(words, set)
  local asked, open = measured(words), {}
  for i, word in ipairs(words) do
    local before, name, bracket = words[i - 3], words[i - 2], words[i - 1]
    local block = open[#open] == "block"
    if block and word.kind == "number" and bracket.text == "[" and name.kind == "name"
      and words[i + 1].text == "]" and words[i + 2].text == ";" and not asked[name.text] then
      local first = i - 3 -- of the declaration: `const T *` or `T`
      local plain = before.kind == "name" or before.text == "*"
      while words[first - 1] and not words[first - 1].text:find "^[;{}]$" do first = first - 1 end
      for k = first, i - 3 do
        local text = words[k].text
        plain = plain and (words[k].kind == "name" or text == "*")
          and not text:find "^_" and text ~= "static" and text ~= "extern" and text ~= "return"
          and text ~= "typedef"
      end
      -- `x[3];` alone is no declaration, `*x[3];` none of a type
      set[i] = plain and words[first].kind == "name" and first <= i - 3 or set[i]
    end
    if word.text == "{" then
      local t = before and words[i - 1].text
      local of_block = t == ")" or t == ";" or t == "{" or t == "}" or t == "else" or t == "do"
      open[#open + 1] = of_block and (t == ")" or #open > 0) and "block" or "other"
    elseif word.text == "}" then
      open[#open] = nil
    end
  end
end

--- A number that is smaller, for a place where a larger one changes nothing; nil where there is
--- none.
---@param text string
---@return string?
function M.smaller(text)
  local digits, suffix = text:match "^(%d+)([uUlL]*)$"
  if digits and tonumber(digits) > 0 then return tostring(tonumber(digits) - 1) .. suffix end
end

--- Do two arguments of a call, changed for each other, give the same?
---@param words table[]
---@param i integer the number of the name that is called
---@param k integer the first of the two arguments
---@param stop integer the number of the bracket that ends the call
---@return boolean
function M.symmetrical(words, i, k, stop)
  local name = words[i].text
  if k > 1 then return false end
  if SYMMETRICAL[name] then return true end
  local behind, value = words[stop + 1], words[stop + 2]
  return COMPARED[name] and behind ~= nil and value ~= nil and value.text == "0"
    and (behind.text == "==" or behind.text == "!=") or false
end

return M

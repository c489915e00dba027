-- SPDX-License-Identifier: MIT
-- mutate_plant: which small mistakes can be planted in a source of C, CUDA or Lua.
--
-- A mutant is { line, kind, from, to, text, place }: the bytes from..to of the source become text.
-- The number of lines never changes, so that other lines keep their numbers.

local equal = dofile "scripts/mutate_equal.lua"

local M = {}

--- The kinds of mistake, in the order in which they are told.
M.KINDS = { "operator", "constant", "off by one", "dropped", "swapped", "negated" }

local C_WORDS, LUA_WORDS = {}, {}
for word in ([[if for while do else switch case default return break continue goto sizeof typedef
  struct enum union static const extern inline void int float double char bool unsigned template
  constexpr auto using namespace volatile register]]):gmatch "%S+" do
  C_WORDS[word] = true
end
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat
  return then true until while]]):gmatch "%S+" do
  LUA_WORDS[word] = true
end

-- What stands in for an operator of two values.
local OTHER = {
  c = { ["+"] = "-", ["-"] = "+", ["*"] = "/", ["/"] = "*", ["%"] = "*", ["=="] = "!=",
    ["!="] = "==", ["&&"] = "||", ["||"] = "&&", ["+="] = "-=", ["-="] = "+=", ["*="] = "/=",
    ["/="] = "*=", ["&"] = "|", ["|"] = "&", ["|="] = "&=", ["&="] = "|=", ["<<"] = ">>",
    [">>"] = "<<" },
  lua = { ["+"] = "-", ["-"] = "+", ["*"] = "/", ["/"] = "*", ["%"] = "*", ["=="] = "~=",
    ["~="] = "==", ["and"] = "or", ["or"] = "and" },
}
local NEXT = { ["<"] = "<=", ["<="] = "<", [">"] = ">=", [">="] = ">" }
local LONG = { "<<=", ">>=", "...", "==", "~=", "!=", "<=", ">=", "&&", "||", "+=", "-=", "*=",
  "/=", "|=", "&=", "<<", ">>", "->", "++", "--", "..", "::" }

-- -- Words ----------------------------------------------------------------------------------------

-- Where a comment, a text or a line of the preprocessor that begins here ends; and is it a text?
local function skipped(text, at, lua)
  local two = text:sub(at, at + 1)
  local function past(mark, from)
    local _, stop = text:find(mark, from, true)
    return stop or #text
  end
  if lua then
    local open = text:match("^%-%-%[(=*)%[", at)
    if open then return past("]" .. open .. "]", at) end
    if two == "--" then return (text:find("\n", at, true) or #text + 1) - 1 end
    open = text:match("^%[(=*)%[", at)
    if open then return past("]" .. open .. "]", at), true end
  else
    if two == "//" then return (text:find("\n", at, true) or #text + 1) - 1 end
    if two == "/*" then return past("*/", at + 2) end
    if two:sub(1, 1) == "#" then -- the rest of a definition is code
      local name = select(2, text:find("^#%s*define%s+[%w_]+%b()", at))
        or select(2, text:find("^#%s*define%s+[%w_]+", at))
      return name or (text:find("\n", at, true) or #text + 1) - 1
    end
  end
  local quote = text:match("^[\"']", at)
  if not quote then return end
  local i = at + 1
  while i <= #text and text:sub(i, i) ~= quote do i = i + (text:sub(i, i) == "\\" and 2 or 1) end
  return math.min(i, #text), true
end

-- The words of a source: { kind, text, from, to, line }.
local function words_of(text, lua)
  local list, at, line = {}, 1, 1
  local function add(kind, to)
    list[#list + 1] = { kind = kind, text = text:sub(at, to), from = at, to = to, line = line }
    at = to + 1
  end
  while at <= #text do
    local c = text:sub(at, at)
    local stop, is_text = skipped(text, at, lua)
    if stop then
      local _, lines = text:sub(at, stop):gsub("\n", "")
      if is_text then add("text", stop) else at = stop + 1 end
      line = line + lines
    elseif c == "\n" then
      line, at = line + 1, at + 1
    elseif c:find "[%s\\]" then
      at = at + 1
    elseif c:find "[%a_]" then
      add("name", select(2, text:find("^[%w_]+", at)))
    elseif c:find "%d" then
      add("number", select(2, text:find("^[%w.]+", at)))
    else
      local to = at
      for _, long in ipairs(LONG) do
        if text:sub(at, at + #long - 1) == long then
          to = at + #long - 1
          break
        end
      end
      add("sign", to)
    end
  end
  return list
end

-- Number of the word that closes what word i opens; nil where nothing does.
local CLOSES = { ["("] = ")", ["["] = "]", ["{"] = "}" }
local function closing(words, i)
  local depth = 0
  for k = i, #words do
    local t = words[k].text
    if words[k].kind == "sign" then
      if CLOSES[t] then depth = depth + 1 end
      if t == ")" or t == "]" or t == "}" then
        depth = depth - 1
        if depth == 0 then return k end
      end
    end
  end
end

-- The arguments of a call whose bracket is word i: pairs of numbers of words; and its end.
local function arguments(words, i)
  local stop = closing(words, i)
  if not stop then return {} end
  local list, first, depth = {}, i + 1, 0
  for k = i + 1, stop do
    local t = words[k].kind == "sign" and words[k].text
    if k == stop or t == "," and depth == 0 then
      if k > first then list[#list + 1] = { first, k - 1 } end
      first = k + 1
    elseif CLOSES[t] then
      depth = depth + 1
    elseif t == ")" or t == "]" or t == "}" then
      depth = depth - 1
    end
    if words[k].text == "function" then return {} end
  end
  return list, stop
end

-- -- Mistakes in words ----------------------------------------------------------------------------

local function is_value(word, reserved)
  return word and (word.kind == "number" or word.kind == "text" or word.text == ")"
    or word.text == "]" or word.kind == "name" and not reserved[word.text])
end

local function number_beside(text)
  if text:find "^%d+$" then return text == "1" and "0" or tostring(tonumber(text) + 1) end
  local digits, suffix = text:match "^(%d+)([uUlL]+)$"
  if digits then return tostring(tonumber(digits) + 1) .. suffix end
  if text:find "^%d+%.%d*[fF]?$" then return "(" .. text .. " + 1)" end
end

local function plant_words(words, language, put, arrays)
  local other, reserved = OTHER[language], language == "lua" and LUA_WORDS or C_WORDS
  local sizes = language == "lua" and {} or equal.sizes(words, arguments, arrays)
  for i, word in ipairs(words) do
    local before, after = words[i - 1], words[i + 1]
    -- an operator of two values has blanks on both sides; a pointer, a template, a sign has not
    local between = before and after and is_value(before, reserved)
      and before.to < word.from - 1 and after.from > word.to + 1
    if between and other[word.text] then put("operator", word, word, other[word.text]) end
    if between and NEXT[word.text] then put("off by one", word, word, NEXT[word.text]) end
    if word.kind == "number" then
      local text = sizes[i] and equal.smaller(word.text) or number_beside(word.text)
      local by_one = before and (before.text == "+" or before.text == "-") and word.text == "1"
      if text then put(by_one and "off by one" or "constant", word, word, text) end
    elseif word.text == "true" or word.text == "false" then
      put("constant", word, word, word.text == "true" and "false" or "true")
    end
  end
end

-- -- Mistakes in calls and conditions -------------------------------------------------------------

-- Is the name at i one that is called, not one that is declared?
local function is_called(words, i, language)
  local before = words[i - 1]
  if language == "lua" then
    local k = i
    while words[k - 1] and (words[k - 1].text == "." or words[k - 1].text == ":") do k = k - 2 end
    return not (words[k - 1] and words[k - 1].text == "function")
  end
  if not before then return false end
  return not (before.kind == "name" and before.text ~= "return" or before.text == "*"
    or before.text == ">" or before.text == "&")
end

local function plant_calls(words, language, source, put)
  local lua = language == "lua"
  local reserved = lua and LUA_WORDS or C_WORDS
  local function piece(from, to) return source:sub(words[from].from, words[to].to) end
  for i, word in ipairs(words) do
    local bracket = words[i + 1]
    local called = word.kind == "name" and bracket and bracket.text == "("
    if called and not reserved[word.text] and is_called(words, i, language) then
      local list, stop = arguments(words, i + 1)
      for k = 1, #list - 1 do
        local a, b = piece(unpack(list[k])), piece(unpack(list[k + 1]))
        local same = a == b or not lua and equal.symmetrical(words, i, k, stop)
        if not same and not (a .. b):find "\n" then
          put("swapped", words[list[k][1]], words[list[k + 1][2]], b .. ", " .. a)
        end
      end
    elseif not lua and called and word.text == "if" then
      local stop = closing(words, i + 1)
      if stop and stop > i + 2 then
        put("negated", words[i + 2], words[stop - 1], "!(" .. piece(i + 2, stop - 1) .. ")")
      end
    elseif lua and (word.text == "if" or word.text == "elseif") then
      local k = i + 1
      while words[k] and words[k].text ~= "then" do k = k + 1 end
      if words[k] and k > i + 1 then
        put("negated", words[i + 1], words[k - 1], "not (" .. piece(i + 1, k - 1) .. ")")
      end
    end
  end
end

-- -- Dropped statements ---------------------------------------------------------------------------

-- The brackets that are open before each word, the innermost last, told by its text.
local function innermost(words)
  local open, list = {}, {}
  for i, word in ipairs(words) do
    local t = word.kind == "sign" and word.text
    list[i] = open[#open]
    if CLOSES[t] then open[#open + 1] = t end
    if t == ")" or t == "]" or t == "}" then open[#open] = nil end
  end
  return list
end

-- C: from behind one of ; { } to the next ;, when it is a call or an assignment and no declaration.
local function plant_drops_c(words, put)
  local inside = innermost(words)
  for i, word in ipairs(words) do
    local before, after = words[i - 1], words[i + 1]
    local starts = before and before.kind == "sign" and inside[i] == "{"
      and (before.text == ";" or before.text == "{" or before.text == "}")
    if starts and word.kind == "name" and not C_WORDS[word.text] and after
      and after.kind == "sign" and not after.text:find "^[:;*&<,]" then
      local k, changes = i, false
      while words[k] and words[k].text ~= ";" and words[k].text ~= "{" do
        changes = changes or words[k].text:find "^[^=!<>]?=$" or words[k].text:find "^[+-][+-]$"
        k = k + 1
      end
      local stop = after.text == "(" and closing(words, i + 1)
      if words[k] and words[k].text == ";" and words[k - 1].text ~= "}"
        and (changes or stop == k - 1) then
        put("dropped", word, words[k], ";")
      end
    end
  end
end

-- Lua: calls and assignments that stand on lines of their own, directly in a block.
local OPENS = { ["function"] = true, ["do"] = true, ["then"] = true, ["repeat"] = true }
local SHUTS = { ["end"] = true, ["until"] = true, ["elseif"] = true }
local DEEPER = { ["("] = 1, ["["] = 1, ["{"] = 1, ["function"] = 1, ["if"] = 1, ["do"] = 1,
  ["repeat"] = 1, [")"] = -1, ["]"] = -1, ["}"] = -1, ["end"] = -1, ["until"] = -1 }
local JOINS = { ["and"] = true, ["or"] = true, ["not"] = true, ["return"] = true,
  ["local"] = true, ["in"] = true }

local function goes_on(word) -- behind this word
  return word and (JOINS[word.text] or word.kind == "sign" and not word.text:find "^[%)%]};]$")
end

local function goes_back(word) -- before this word
  return word and (word.text == "and" or word.text == "or"
    or word.kind == "sign" and word.text ~= ";")
end

local function plant_drops_lua(words, source, put)
  local open = {}
  local function deeper(k) return words[k].kind ~= "text" and DEEPER[words[k].text] or 0 end
  for i, word in ipairs(words) do
    local before = words[i - 1]
    local in_block = #open == 0 or OPENS[open[#open]]
    local fresh = not before or before.line < word.line
    if in_block and fresh and word.kind == "name" and not LUA_WORDS[word.text]
      and not goes_on(before) then
      local k, depth = i, 0
      while words[k + 1] and (depth > 0 or words[k + 1].line == words[k].line
          or goes_on(words[k]) or goes_back(words[k + 1])) do
        k = k + 1
        depth = depth + deeper(k)
      end
      if words[k].line - word.line < 4 and loadstring(source:sub(word.from, words[k].to)) then
        put("dropped", word, words[k], "")
      end
    end
    if word.kind ~= "text" then
      local t = word.text
      if SHUTS[t] or t == ")" or t == "]" or t == "}" then open[#open] = nil end
      if OPENS[t] or CLOSES[t] then open[#open + 1] = t end
    end
  end
end

-- -- Blocks of Lua ------------------------------------------------------------------------------

-- Each block as { from, to }: the bytes between its first word and the one that ends it.  The file
-- itself is not among them.
local function blocks_of(words)
  local list, open = {}, {}
  local function begin(at)
    list[#list + 1] = { from = at }
    open[#open + 1] = list[#list]
  end
  local function finish(at)
    if #open > 0 then open[#open].to = at end
    open[#open] = nil
  end
  for i, word in ipairs(words) do
    local t = word.kind == "name" and word.text
    if t == "end" or t == "until" or t == "else" or t == "elseif" then finish(word.from - 1) end
    if t == "then" or t == "do" or t == "else" or t == "repeat" then
      begin(word.to + 1)
    elseif t == "function" then
      local k = i + 1
      while words[k].text ~= "(" do k = k + 1 end
      begin(words[closing(words, k)].to + 1)
    end
  end
  return list
end

--- A source of Lua that notes each block the first time it is entered, by its number from 1; the
--- file itself is 0.  The first line, a comment, is replaced by one that opens the notes.
---@param source string
---@param opening string Lua whose value is a table the blocks are noted in
---@return string text with as many lines
function M.counting(source, opening)
  local parts, at = {}, 1
  for number, block in ipairs(blocks_of(words_of(source, true))) do
    parts[#parts + 1] = source:sub(at, block.from - 1) .. (" __b[%d]=1;"):format(number)
    at = block.from
  end
  local text = table.concat(parts) .. source:sub(at)
  return (text:gsub("^%-%-[^\n]*", function() return "local __b=" .. opening .. " __b[0]=1;" end))
end

-- -- All of them ----------------------------------------------------------------------------------

--- The language of a source by its name: "lua", "c" or "cuda"; nil of any other.
---@param path string
function M.language_of(path)
  return path:find "%.lua$" and "lua" or path:find "%.c$" and "c" or path:find "%.cu$" and "cuda"
    or nil
end

--- A source with a mutant planted.
---@param source string
---@param mutant table
---@return string text with as many lines
function M.planted(source, mutant)
  local was = source:sub(mutant.from, mutant.to)
  local _, lines = was:gsub("\n", "")
  local _, kept = mutant.text:gsub("\n", "")
  return source:sub(1, mutant.from - 1) .. mutant.text .. ("\n"):rep(lines - kept)
    .. source:sub(mutant.to + 1)
end

--- Every mutant of a source, in the order of its bytes; place is what is counted: the number of its
--- block in Lua, else its line.
---@param source string
---@param language string "lua", "c" or "cuda"
---@return table[] mutants
function M.mutants(source, language)
  local lua = language == "lua"
  local words = words_of(source, lua)
  local list = {}
  local function put(kind, first, last, text)
    list[#list + 1] = { kind = kind, line = first.line, from = first.from, to = last.to,
      text = text }
  end
  plant_words(words, lua and "lua" or "c", put, language == "c")
  plant_calls(words, lua and "lua" or "c", source, put)
  if lua then plant_drops_lua(words, source, put) else plant_drops_c(words, put) end
  local blocks = lua and blocks_of(words)
  for _, mutant in ipairs(list) do
    mutant.place = lua and 0 or mutant.line
    for number, block in ipairs(blocks or {}) do -- the last that holds it is the innermost
      if block.from <= mutant.from and mutant.from <= block.to then mutant.place = number end
    end
  end
  table.sort(list, function(a, b)
    if a.from ~= b.from then return a.from < b.from end
    return a.kind .. a.text < b.kind .. b.text
  end)
  return list
end

return M

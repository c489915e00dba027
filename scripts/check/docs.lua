-- SPDX-License-Identifier: MIT
-- docs: a comment above each public prototype names its arguments, a docstring of a Lua function
-- has a @param for each argument and for nothing else, a recipe says at its head what it does.

package.path = "scripts/check/?.lua;" .. package.path
local tree = require "tree".open(arg[1])

local function names_word(text, word) return text:find("%f[%w_]" .. word .. "%f[^%w_]") end

-- The object itself needs no words: the rg_tensor *x of rg_tensor_version(x).
local function is_self(argument, name)
  local type_name = argument:match("(rg_[%w_]+)%s*%*%s*[%w_]+$")
  return type_name and name:sub(1, #type_name + 1) == type_name .. "_"
end

-- What _retain and _release do is said once, in ridge.h.
local function is_reference(name) return name:find("_retain$") or name:find("_release$") end

-- One paragraph of a header: a comment and the prototypes under it, without an empty line between.
local function check_paragraph(path, number, text)
  local comment = {}
  text = text:gsub("/%*.-%*/", function(words)
    comment[#comment + 1] = words
    return words:gsub("[^\n]", "")
  end)
  local words = table.concat(comment, "\n")
  text = text:gsub("\\\n", "\n"):gsub("(#%s*define%s+)RG_API[^\n]*", "%1")
  for at, name, arguments in text:gmatch("()RG_API%s[^;]-%f[%w_]([%w_#]+)(%b())[^;]-;") do
    local line = number + select(2, text:sub(1, at):gsub("\n", ""))
    if not is_reference(name) then
      if not words:find("%a") then tree:fail(path, line, "%s has no comment", name) end
      for argument in arguments:sub(2, -2):gsub("%s+", " "):gmatch("[^,]+") do
        local word = argument:gsub("%[.*", ""):match("([%w_]+)%s*$")
        if word and word ~= "void" and not is_self(argument, name) and
          not names_word(words, word) then
          tree:fail(path, line, "%s: the comment does not name %q", name, word)
        end
      end
    end
  end
end

for _, path in ipairs(tree:matching("^core/ridge%.h$", "^core/ridge/.*%.h$")) do
  local paragraph, start = {}, 1
  for number, line in tree:lines(path) do
    if line:find("%S") then
      if #paragraph == 0 then start = number end
      paragraph[#paragraph + 1] = line
    else
      check_paragraph(path, start, table.concat(paragraph, "\n"))
      paragraph = {}
    end
  end
  check_paragraph(path, start, table.concat(paragraph, "\n"))
end

-- A docstring and the function under it.  `extra` is an argument too many, there to be refused.
local function check_function(path, number, name, arguments, docstring)
  local documented = {}
  for word in docstring:gmatch("@param%s+([%w_.]+)") do documented[word] = true end
  for word in arguments:gmatch("[%w_.]+") do
    if not documented[word] and word:sub(1, 1) ~= "_" and word ~= "extra" then
      tree:fail(path, number, "%s: no @param %s", name, word)
    end
    documented[word] = nil
  end
  for word in pairs(documented) do
    tree:fail(path, number, "%s: @param %s is not an argument", name, word)
  end
end

for _, path in ipairs(tree:matching("^lua/ridge/.*%.lua$")) do
  local docstring
  for number, line in tree:lines(path) do
    if line:find("^%-%-%-") then
      docstring = (docstring and docstring .. "\n" or "") .. line
    elseif not (docstring and line:find("^%-%-")) then
      local name, arguments = line:match("^function%s+([%w_.:]+)%s*%(([^)]*)%)")
      if not name then
        name, arguments = line:match("^([%w_]+%.[%w_.]+)%s*=%s*function%s*%(([^)]*)%)")
      end
      if name and docstring then check_function(path, number, name, arguments, docstring) end
      docstring = nil
    end
  end
end

for _, path in ipairs(tree:matching("^recipes/.*%.lua$")) do
  local described
  for _, line in tree:lines(path) do
    if not line:find("^%-%-") and not line:find("^#!") then break end
    described = described or not line:find("SPDX") and line:find("%a+%s+%a+%s+%a+")
  end
  if not described then tree:fail(path, 1, "no comment at its head says what the recipe does") end
end

tree:finish()

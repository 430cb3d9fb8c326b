package source

import "slices"

// vocabulary is 256 common English words, one a byte. With the space before them
// they are one token each in the vocabularies of current models.
var vocabulary = [256]string{
	"time", "year", "people", "way", "day", "man", "thing", "woman",
	"life", "child", "world", "school", "state", "family", "student", "group",
	"country", "problem", "hand", "part", "place", "case", "week", "company",
	"system", "program", "question", "work", "government", "number", "night", "point",
	"home", "water", "room", "mother", "area", "money", "story", "fact",
	"month", "lot", "right", "study", "book", "eye", "job", "word",
	"business", "issue", "side", "kind", "head", "house", "service", "friend",
	"father", "power", "hour", "game", "line", "end", "member", "law",
	"car", "city", "community", "name", "president", "team", "minute", "idea",
	"body", "information", "back", "parent", "face", "others", "level", "office",
	"door", "health", "person", "art", "war", "history", "party", "result",
	"change", "morning", "reason", "research", "girl", "guy", "moment", "air",
	"teacher", "force", "education", "foot", "boy", "age", "policy", "process",
	"music", "market", "sense", "nation", "plan", "college", "interest", "death",
	"experience", "effect", "use", "class", "control", "field", "development", "role",
	"effort", "rate", "heart", "drug", "show", "leader", "light", "voice",
	"wife", "police", "mind", "price", "report", "decision", "son", "view",
	"relationship", "town", "road", "arm", "difference", "value", "building", "action",
	"season", "society", "tax", "director", "position", "player", "record", "paper",
	"space", "ground", "form", "event", "official", "matter", "center", "couple",
	"site", "project", "activity", "star", "table", "need", "court", "oil",
	"situation", "cost", "industry", "figure", "street", "image", "phone", "data",
	"picture", "practice", "piece", "land", "product", "doctor", "wall", "patient",
	"worker", "news", "test", "movie", "north", "love", "support", "technology",
	"step", "baby", "computer", "type", "film", "tree", "source", "hair",
	"window", "chance", "brother", "oxygen", "summer", "winter", "spring", "river",
	"island", "forest", "garden", "kitchen", "bridge", "corner", "paint", "silver",
	"gold", "green", "blue", "white", "black", "brown", "orange", "simple",
	"quick", "slow", "early", "late", "young", "old", "large", "small",
	"long", "short", "high", "low", "open", "close", "warm", "cold",
	"bright", "dark", "clean", "fresh", "heavy", "strong", "quiet", "loud",
	"sharp", "soft", "hard", "deep", "wide", "narrow", "round", "flat",
}

// Vocabulary returns the words that synthetic prompts are made of if nothing is
// known of the server's tokenizer, and from which those are chosen that are one
// of its tokens.
func Vocabulary() []string { return slices.Clone(vocabulary[:]) }

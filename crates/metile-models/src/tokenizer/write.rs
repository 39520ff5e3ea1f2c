//! A tokenizer as `tokenizer.json` and `tokenizer_config.json`.

use serde_json::{Value, json};

use super::Tokenizer;
use crate::Error;
use crate::config::ModelConfig;

impl Tokenizer {
    /// The `tokenizer.json` that Transformers and the `tokenizers` library read: this tokenizer with its
    /// control tokens, and nothing put before or behind texts.
    ///
    /// # Errors
    /// If the tokenizer is no byte-level BPE.
    pub fn to_json(&self) -> Result<Value, Error> {
        let mut file = serde_json::to_value(&self.plain).map_err(|e| self.fail(e.to_string()))?;
        let byte_level = file["pre_tokenizer"].to_string().contains("ByteLevel");
        if !byte_level || file["model"]["type"] != "BPE" {
            return Err(self.fail("it is no byte-level BPE, the one kind that is written"));
        }
        let mut added: Vec<(u32, &str)> = self.control.ids().map(|(text, id)| (id, text)).collect();
        added.sort_unstable();
        let Some(vocabulary) = file["model"]["vocab"].as_object_mut() else {
            return Err(self.fail("its vocabulary is no table"));
        };
        // Readers give tokens that the vocabulary lacks new ids.
        for &(id, text) in &added {
            vocabulary.insert(text.to_owned(), json!(id));
        }
        let entry = |&(id, text): &(u32, &str)| {
            json!({
                "id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": self.is_control(id),
            })
        };
        file["added_tokens"] = added.iter().map(entry).collect();
        file["decoder"] = json!({
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true
        });
        Ok(file)
    }

    /// The `tokenizer_config.json` beside it, with `config`'s tokens that begin and end texts.
    pub fn config_json(&self, config: &ModelConfig, chat_template: Option<&str>) -> Value {
        let text = |id: u32| self.decode(&[id]);
        let mut object = json!({
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": false,
            "add_bos_token": config.add_begin,
            "bos_token": config.begin_id.map(text),
            "eos_token": config.end_ids.first().copied().map(text),
            "model_max_length": config.context,
        });
        if let Some(template) = chat_template {
            object["chat_template"] = json!(template);
        }
        object
    }
}
